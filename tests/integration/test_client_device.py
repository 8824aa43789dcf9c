"""`partita login --device` as it is typed, while a person decides on the page of a real `up`."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.support.device_logins import DeviceLogin, sign_in
from tests.support.typed import Typed
from tests.support.up import Up

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("device")
    (folder / "suites").mkdir()
    more = {"SUITES_DIR": str(folder / "suites"), "UP_DEMO": "0", "LOCAL_RUNTIME": "process"}
    with Up(folder / "up", **more, XDG_STATE_HOME=str(folder / "state")) as up:
        yield up


@pytest.fixture(scope="module")
def browser(up: Up) -> Iterator[httpx.Client]:
    """A browser in which the person of the `up` is signed in by the page."""
    with httpx.Client(base_url=up.url, follow_redirects=True, timeout=60) as browser:
        sign_in(browser, up.credentials())
        yield browser


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    """Somebody elsewhere: without the data folder of the `up`, and without a terminal."""
    return Typed(tmp_path, PARTITA_KEYRING="off")


def saved_token(typed: Typed) -> str:
    file = typed.home / ".config" / "partita" / "config.json"
    saved = json.loads(file.read_text())
    assert file.stat().st_mode & 0o777 == 0o600
    return str(saved["contexts"][saved["current"]]["token"])


def test_an_approved_login_works_until_its_logout(up: Up, browser: httpx.Client, typed: Typed):
    login = DeviceLogin(typed, up.url)
    assert login.link == f"{up.url}/device?code={login.code}"
    assert "Approved" in login.confirm(browser, "approve", scope="run", days="7")

    said = login.ends(0)

    assert f"signed in to {up.url} as {up.credentials()['email']} (runner in " in said
    who = typed.json("whoami")
    assert (who["user"]["email"], who["role"]) == (up.credentials()["email"], "runner")
    assert typed.json("run", "list").keys() == {"executions"}
    token = saved_token(typed)
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        assert client.get(f"{up.url}/api/v1/auth/me").status_code == 200
        typed.run("logout")
        answer = client.get(f"{up.url}/api/v1/auth/me")
    assert answer.status_code == 401, answer.text
    assert answer.json()["code"] == "token_revoked"
    assert "no server is known" in typed.run("run", "list", code=6)


def test_a_scope_to_read_cannot_launch(up: Up, browser: httpx.Client, typed: Typed):
    login = DeviceLogin(typed, up.url)
    login.confirm(browser, "approve", scope="read", days="7")
    login.ends(0)

    assert typed.json("run", "list").keys() == {"executions"}
    assert "error role_required" in typed.run("run", "launch", "hello", code=4)


def test_a_denied_login_says_so_and_keeps_nothing(up: Up, browser: httpx.Client, typed: Typed):
    login = DeviceLogin(typed, up.url)
    assert "Denied" in login.confirm(browser, "deny")

    said = login.ends(1)

    assert "the sign-in was denied on the page" in said
    assert typed.json("context", "list") == {"contexts": []}


def test_a_code_that_expires_says_to_try_again(up: Up, typed: Typed):
    login = DeviceLogin(typed, up.url)
    end_life(up, login.code)

    said = login.ends(13)

    assert "the code has expired" in said
    assert "next: try again: partita login" in said
    assert typed.json("context", "list") == {"contexts": []}


def end_life(up: Up, code: str) -> None:
    """Let the ten minutes of that code be over."""
    statement = "UPDATE accounts_deviceauthorization SET expires_at = ? WHERE user_code = ?"
    with closing(sqlite3.connect(up.data / "partita.sqlite3", timeout=30)) as store:
        changed = store.execute(statement, ("2020-01-01 00:00:00", code.replace("-", "")))
        store.commit()
    assert changed.rowcount == 1


def test_ctrl_c_gives_up_and_leaves_the_context_of_before(up: Up, typed: Typed):
    with up.client() as client:
        body = {"name": "laptop", "scope": "run"}
        token = client.post("/auth/tokens", json=body).json()["token"]
    typed.run("login", up.url, "--token-stdin", text=token)
    login = DeviceLogin(typed, up.url)

    login.process.send_signal(signal.SIGINT)

    assert login.ends(130) == ""
    assert saved_token(typed) == token
    assert typed.json("whoami")["role"] == "runner"


def test_a_form_of_another_site_decides_nothing(up: Up, browser: httpx.Client, typed: Typed):
    login = DeviceLogin(typed, up.url)
    form = {"code": login.code, "scope": "run", "days": "7"}

    refused = browser.post("/device/approve", data=form)

    assert refused.status_code == 403
    assert "Denied" in login.confirm(browser, "deny")  # it still waited
    login.process.send_signal(signal.SIGINT)
    login.ends(130)
