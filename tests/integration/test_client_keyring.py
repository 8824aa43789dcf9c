"""The token in a real keyring of the system: gnome-keyring on a session bus of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_partita import TOKEN, FakePartita, serve_fake
from tests.support.packages import program
from tests.support.parts import give_up
from tests.support.processes import ROOT, until
from tests.support.wheels import build_wheel, install_wheel

pytestmark = pytest.mark.slow
PASSWORD = b"of the keyring"
LOCK = """
import secretstorage
secretstorage.get_default_collection(secretstorage.dbus_init()).lock()
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the client's wheel and its extra `keyring`."""
    folder = tmp_path_factory.mktemp("keyring")
    (folder / "wheel").mkdir()
    wheel = build_wheel(ROOT / "partita_client", folder / "wheel")
    return install_wheel(Path(f"{wheel}[keyring]"), folder / "env")


class Desktop:
    """Somebody's session: a bus, a keyring that is unlocked, and `partita` as it is typed."""

    def __init__(self, home: Path, programs: Path) -> None:
        self.home, self.programs = home, programs
        (home / "run").mkdir(parents=True, mode=0o700)
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"),
        }  # fmt: skip
        self.bus = subprocess.Popen(
            ["dbus-daemon", "--session", "--nofork", "--print-address"],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self.bus.stdout is not None
        address = self.bus.stdout.readline().decode().strip()
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = address
        self.keyring = self.start_keyring()

    def start_keyring(self) -> subprocess.Popen[bytes]:
        command = ["gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets"]
        process = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(PASSWORD)
        process.stdin.close()
        until(lambda: self.stored("nobody") == "None", within_s=20, what="the keyring answers")
        return process

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.programs / "python", "-c", code], env=self.environment, timeout=60,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def stored(self, name: str) -> str:
        """What the keyring has for a name, in the words of Python; empty if it cannot be asked."""
        code = f"import keyring; print(keyring.get_password('partita', {name!r}))"
        return self.python(code).stdout.strip()

    def partita(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.programs / "partita", *words], env=self.environment, cwd=self.home, input=text,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def login(self, url: str) -> subprocess.CompletedProcess[str]:
        done = self.partita("login", url, "--token-stdin", "--name", "team", text=TOKEN)
        assert done.returncode == 0, done.stderr
        return done

    @property
    def context(self) -> Any:
        file = self.home / ".config" / "partita" / "config.json"
        return json.loads(file.read_text())["contexts"].get("team")

    def close(self) -> None:
        for process in (self.keyring, self.bus):
            process.kill()
            process.wait()
        assert self.bus.stdout is not None
        self.bus.stdout.close()


@pytest.fixture
def desktop(tmp_path: Path, programs: Path) -> Iterator[Desktop]:
    for name in ("dbus-daemon", "gnome-keyring-daemon"):
        if program(name) is None:
            give_up(f"needs {name} (run `make test`)")
    desktop = Desktop(tmp_path / "home", programs)
    yield desktop
    desktop.close()


@pytest.fixture
def fake() -> Iterator[FakePartita]:
    with serve_fake() as served:
        yield served


def test_a_token_is_in_the_keyring_alone_until_the_logout(desktop: Desktop, fake: FakePartita):
    desktop.login(fake.url)

    assert desktop.context["tokenIn"] == "keyring"
    assert TOKEN not in json.dumps(desktop.context)
    assert desktop.stored(f"team {fake.url}") == TOKEN
    assert "Ada <ada@example.org>" in desktop.partita("whoami").stdout
    assert "keyring" in desktop.partita("context", "list", "-o", "wide").stdout

    assert desktop.partita("logout").returncode == 0
    assert desktop.context is None
    assert desktop.stored(f"team {fake.url}") == "None"


def test_a_keyring_that_is_locked_says_what_to_do(desktop: Desktop, fake: FakePartita):
    desktop.login(fake.url)
    assert desktop.python(LOCK).returncode == 0

    done = desktop.partita("whoami")

    assert done.returncode == 2
    assert "error: the keyring does not give the token of the context team" in done.stderr
    assert "next: unlock it; else PARTITA_URL and PARTITA_TOKEN" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_login_with_a_locked_keyring_keeps_the_token_in_the_file(
    desktop: Desktop, fake: FakePartita
):
    assert desktop.python(LOCK).returncode == 0

    done = desktop.login(fake.url)

    assert desktop.context["token"] == TOKEN
    assert "keyring" in done.stderr
    assert desktop.partita("whoami").returncode == 0


@pytest.mark.parametrize("part", ["keyring", "bus"])
def test_a_keyring_that_is_gone_says_what_to_do_and_a_logout_goes_on(
    desktop: Desktop, fake: FakePartita, part: str
):
    desktop.login(fake.url)
    process: subprocess.Popen[bytes] = getattr(desktop, part)
    process.kill()
    process.wait()

    done = desktop.partita("whoami")

    assert done.returncode == 2, done.stderr
    assert "the token of the context team" in done.stderr
    assert "PARTITA_URL and PARTITA_TOKEN" in done.stderr
    assert "Traceback" not in done.stderr
    done = desktop.partita("logout")
    assert "Traceback" not in done.stderr
    assert "the context team is gone" in done.stderr
    assert desktop.context is None
    desktop.login(fake.url)
    assert desktop.partita("whoami").returncode == 0
