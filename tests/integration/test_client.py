"""`partita` as it is typed, against a real `up`: without a login, by a token, through cuts."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.suites import make_suites
from tests.support.fake_partita import Relay
from tests.support.openapi_answers import check_against_openapi, check_against_schema
from tests.support.processes import until
from tests.support.typed import (
    STEADY_LINES,
    Typed,
    numbers_of,
    watch_through,
    write_client_suites,
)
from tests.support.up import Up

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("client")
    suites = make_suites(folder / "suites")
    write_client_suites(suites)
    more = {"SUITES_DIR": str(suites), "UP_DEMO": "0", "LOCAL_RUNTIME": "process"}
    with Up(folder / "up", **more, XDG_STATE_HOME=str(folder / "state")) as up:
        yield up


@pytest.fixture
def here(up: Up, tmp_path: Path) -> Typed:
    """Somebody on the machine of the `up`, who knows its data folder."""
    return Typed(tmp_path, DATA_DIR=str(up.data), SUITES_DIR=up.environment["SUITES_DIR"])


@pytest.fixture
def token(up: Up) -> str:
    """An API token as the page Account makes it."""
    with up.client() as client:
        body = {"name": "laptop", "scope": "run"}
        return str(client.post("/auth/tokens", json=body).json()["token"])


def test_an_up_is_found_without_a_login_and_the_author_is_its_person(here: Typed, up: Up):
    out = here.run("run", "launch", "hello", "--watch")

    first, *lines = out.splitlines()
    run_id = first.split()[0]
    assert first == f"{run_id}  {up.url}/executions/{run_id}"
    assert any("guests greeted: 3" in line for line in lines)
    assert re.fullmatch(r"✓ Hello: Healthy after 00:\d\d  4 steps healthy", lines[-1]), lines[-1]
    assert here.json("run", "show", run_id)["author"] == "Administrator"
    assert here.json("whoami")["user"]["email"] == up.credentials()["email"]
    assert (up.data / "up.token").stat().st_mode & 0o777 == 0o600


def test_it_is_found_by_the_note_of_its_process(up: Up, tmp_path: Path):
    typed = Typed(tmp_path, XDG_STATE_HOME=up.environment["XDG_STATE_HOME"])

    assert typed.json("context", "show")["from"] == f"the `up` of {up.data}"


def test_a_failed_run_says_why_and_runs_again(here: Typed):
    out = here.run("run", "launch", "failing", "--wait", code=10)
    run_id = out.split()[0]

    why = here.run("run", "why", run_id)
    assert "✗ fails exited with code 1" in why
    assert "the step wrote nothing" in why
    assert f"{run_id}: " not in why
    here.run("run", "why", run_id, "--exit-status", code=10)
    assert run_id in here.run("run", "list", "--status", "failed", "-o", "name").split()
    plan = here.run("run", "rerun", run_id, "--failed", "--dry-run")
    assert "fails" in plan
    again = here.json("run", "rerun", run_id, "--failed", "-y")
    assert again["rerunOf"] == run_id
    here.run("run", "wait", again["id"], code=10)


def test_a_login_by_a_token_works_from_anywhere(up: Up, tmp_path: Path, token: str):
    typed = Typed(tmp_path)
    assert "no server is known" in typed.run("run", "list", code=6)

    typed.run("login", up.url, "--token-stdin", "--name", "mine", text=f"{token}\n")

    assert typed.json("context", "list")["contexts"][0]["name"] == "mine"
    assert typed.json("run", "list").keys() == {"executions"}
    assert "runner in" in typed.run("whoami") or "admin in" in typed.run("whoami")
    out = typed.run("doctor")
    assert "backend local" in out
    typed.run("logout")
    assert "no server is known" in typed.run("run", "list", code=6)


@pytest.mark.parametrize(
    ("given", "code"),
    [("pat_unknown", "token_revoked"), ("ey.no.jwt", "token_invalid"), ("", "unauthenticated")],
)
def test_a_wrong_token_is_refused_with_what_to_do(up: Up, tmp_path: Path, given: str, code: str):
    typed = Typed(tmp_path, PARTITA_URL=up.url, PARTITA_TOKEN=given)

    said = typed.run("run", "list", code=4)

    assert f"error {code}" in said
    assert "next: sign in" in said


def test_a_token_that_was_revoked_ends_at_once(up: Up, tmp_path: Path, token: str):
    typed = Typed(tmp_path, PARTITA_URL=up.url, PARTITA_TOKEN=token)
    typed.run("whoami")
    with up.client() as client:
        for each in client.get("/auth/tokens").json()["tokens"]:
            if each["name"] == "laptop":
                client.delete(f"/auth/tokens/{each['tokenId']}")

    assert "error token_revoked" in typed.run("whoami", code=4)


def test_a_run_of_another_workspace_is_not_there(here: Typed, up: Up, tmp_path: Path):
    import httpx  # the one call that needs no token

    run_id = here.json("run", "launch", "hello")["id"]
    with up.client() as client:
        workspace = client.get("/auth/me").json()["workspace"]["workspaceId"]
        client.post("/workspaces", json={"name": "other"})
        made = client.post(f"/workspaces/{workspace}/invitations", json={"role": "viewer"}).json()
    invitation = made["link"].partition("#")[2]
    ada = {"fullName": "Ada", "email": "ada@example.org", "password": "Correct-Horse-1"}
    signed_up = httpx.post(
        f"{up.url}/api/v1/auth/sign-up", json={**ada, "invitation": invitation}, timeout=60
    ).json()
    typed = Typed(tmp_path, PARTITA_URL=up.url, PARTITA_TOKEN=signed_up["token"])
    assert typed.json("run", "show", run_id)["id"] == run_id
    assert "role_required" in typed.run("run", "launch", "hello", code=4)

    with httpx.Client(
        base_url=f"{up.url}/api/v1",
        headers={"Authorization": f"Bearer {signed_up['token']}"},
        timeout=60,
    ) as client:
        client.post("/workspaces", json={"name": "own"})
        own = client.get("/workspaces").json()["workspaces"]
        other = next(each for each in own if each["workspaceId"] != workspace)
        client.put("/workspaces/current", json={"workspaceId": other["workspaceId"]})

    assert "execution_not_found" in typed.run("run", "show", run_id, code=3)


def test_a_watch_through_twenty_cuts_loses_and_doubles_no_line(
    here: Typed, up: Up, tmp_path: Path, token: str
):
    run_id = here.json("run", "launch", "chatty")["id"]
    up.wait_for(run_id)
    relay = Relay(up.port, cuts=20, after_bytes=30_011)
    url = f"http://127.0.0.1:{relay.port}"
    typed = Typed(tmp_path, PARTITA_URL=url, PARTITA_TOKEN=token)

    found = numbers_of(typed.run("run", "watch", run_id), "chatty")

    relay.close()
    assert found == list(range(1, 3001))
    assert relay.accepted > 15


@pytest.mark.parametrize("is_found", [False, True], ids=["by a token", "found without a login"])
def test_a_watch_goes_on_after_a_kill_9_of_the_server(
    up: Up, tmp_path: Path, token: str, is_found: bool
):
    """Each start of an `up` replaces the token of its file; a saved one stays."""
    found, known = {"DATA_DIR": str(up.data)}, {"PARTITA_URL": up.url, "PARTITA_TOKEN": token}
    typed = Typed(tmp_path, **(found if is_found else known))
    run_id = typed.json("run", "launch", "steady")["id"]

    def crash() -> None:
        up.process.kill()
        up.start()

    said = watch_through(typed, run_id, {50: crash, 300: crash})

    assert numbers_of(said, "steady") == list(range(1, STEADY_LINES + 1))
    assert said.splitlines()[-1].startswith("✓ Steady: Healthy after")
    assert {step["attempt"] for step in up.detail(run_id)["steps"]} == {1}, "nothing ran twice"


def test_a_log_that_is_followed_live_is_whole(here: Typed):
    run_id = here.json("run", "launch", "chatty")["id"]

    out = here.run("run", "logs", run_id, "-f", "--source", "chatty", "-o", "ndjson")

    texts = [json.loads(line)["text"] for line in out.splitlines()]
    assert [int(text) for text in texts if text.isdecimal()] == list(range(1, 3001))
    assert here.run("run", "logs", run_id, "--search", "2999").count("\n") == 1


def test_what_programs_read_of_a_run_is_as_described(here: Typed):
    watched = here.json("run", "launch", "chatty", "--keep", "10m", "--watch")
    run_id = watched["id"]

    check_against_openapi("executions_detail", watched)
    check_against_openapi("executions_detail", here.json("run", "watch", run_id))
    kept = here.json("run", "keep", run_id, "--for", "20m")
    check_against_openapi("executions_keep", kept)
    begun = here.json("run", "again", run_id, "report", "--no-watch")
    check_against_openapi("executions_repeat", begun, status=201)
    ended = here.json("run", "again", run_id, "report", "--env", "A=b", "--watch")
    check_against_openapi("executions_repeat_detail", ended)
    assert here.json("run", "keep", run_id, "--end") == {"id": run_id}


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_a_log_for_programs_is_a_line_as_described_for_each_line(here: Typed, form: str):
    run_id = here.json("run", "launch", "hello", "--wait")["id"]

    lines = here.run("run", "logs", run_id, "-o", form).splitlines()

    assert len(lines) > 5
    for line in lines:
        check_against_schema("LineRecord", json.loads(line))


def test_files_come_down(here: Typed, tmp_path: Path):
    run_id = here.json("run", "launch", "chatty")["id"]
    here.run("run", "wait", run_id)

    timeline = here.run("run", "timeline", run_id)
    assert timeline.startswith(f"{run_id}: ")
    assert "critical path" in timeline
    assert here.json("run", "timeline", run_id)["criticalPath"]
    target = "reports/report/1/out/made.txt"
    downloaded = here.json("run", "download", run_id, "--to", "reports")
    assert downloaded == {"files": [target], "lost": []}
    here.run("run", "download", run_id, "--junit", "junit.xml")

    assert (tmp_path / "reports" / "report" / "1" / "out" / "made.txt").read_text() == "made\n"
    assert b"<testsuite" in (tmp_path / "junit.xml").read_bytes()


def test_ctrl_c_leaves_the_run_and_a_cancel_ends_it(here: Typed):
    process = here.start("run", "launch", "slow", "--profile", "long.yaml", "--watch")
    assert process.stdout is not None
    first = process.stdout.readline()
    run_id = first.split()[0]
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 14, err
    assert f"look again: partita run watch {run_id}" in out
    assert here.json("run", "show", run_id)["status"] in ("Queued", "Booting")
    here.run("run", "cancel", run_id, "--reason", "enough")
    here.run("run", "wait", run_id, code=12)


def test_a_terminal_shows_the_steps_live_below_the_lines(here: Typed):
    words = ("run", "launch", "steady", "--watch")
    with here.on_screen(*words, columns=60, rows=16) as program:
        shown = program.await_text(r"^ ● steady +running +00:0[2-5]")
        assert re.search(r"^Steady Booting  00:\d\d$", shown, re.MULTILINE), shown
        program.resize(100, 30)
        assert program.await_end() == 0

    text = program.screen.text
    assert numbers_of(text, "steady") == list(range(1, STEADY_LINES + 1))
    assert re.search(r"^✓ Steady: Healthy after 00:\d\d  1 step healthy$", text, re.MULTILINE), text
    assert "● steady" not in text
    assert "Steady Booting" not in text


def test_the_end_of_the_time_is_thirteen(here: Typed):
    words = ("--profile", "long.yaml", "--wait", "--timeout", "2s")
    out = here.run("run", "launch", "slow", *words, code=13)

    here.run("run", "cancel", out.split()[0])


READS: list[tuple[tuple[str, ...], str]] = [
    (("run", "list"), "executions"),
    (("suite", "list"), "suites"),
    (("suite", "show", "hello"), "id"),
    (("profile", "list"), "suites"),
    (("profile", "list", "slow"), "profiles"),
    (("profile", "show", "slow", "short.yaml"), "etag"),
    (("environment", "list"), "sandboxes"),
    (("catalog", "list"), "packages"),
    (("catalog", "search", "hello"), "packages"),
    (("whoami",), "user"),
    (("version",), "server"),
    (("doctor",), "checks"),
]


@pytest.mark.parametrize(("words", "key"), READS, ids=[" ".join(words) for words, _ in READS])
def test_every_read_works_for_programs_and_for_people(
    here: Typed, words: tuple[str, ...], key: str
):
    document: Mapping[str, Any] = here.json(*words)

    assert key in document
    assert here.run(*words)


def test_a_changed_profile_is_guarded_by_the_tag_that_show_prints(here: Typed, tmp_path: Path):
    tag = here.json("profile", "show", "slow", "short.yaml")["etag"]
    (tmp_path / "p.yaml").write_text("name: Short\ndefault: true\nenv: {STEPS: '3'}\n")
    words = ("profile", "set", "slow", "short.yaml", "--from", "p.yaml", "--if-match")

    here.run(*words, '"stale"', code=5)
    here.run(*words, tag)


def test_the_store_half_is_a_word_away(here: Typed):
    beside = here.json("admin", "suite", "list")["suites"]

    assert {suite["id"] for suite in beside} == {
        suite["id"] for suite in here.json("suite", "list")["suites"]
    }


def test_a_new_start_replaces_the_token(up: Up, here: Typed):
    before = (up.data / "up.token").read_text()
    assert up.ends() == 0
    assert "no server is known" in here.run("run", "list", code=6)

    up.start()

    after = (up.data / "up.token").read_text()
    assert after != before
    assert here.run("whoami")
    old = re.search(r"PARTITA_TOKEN=(\S+)", before)
    assert old
    refused = Typed(here.home, PARTITA_URL=up.url, PARTITA_TOKEN=old[1])
    until(lambda: "token_revoked" in refused.run("whoami", code=4), within_s=10, what="refused")
