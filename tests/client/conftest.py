"""A home of its own for each test of the client, and a server that it can ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from partita_client import Client
from tests.support.fake_partita import TOKEN, FakePartita, serve_fake

NAMES = (
    "PARTITA_URL", "PARTITA_TOKEN", "PARTITA_TOKEN_FILE", "PARTITA_CONTEXT", "PARTITA_CA_FILE",
    "DATA_DIR", "NO_COLOR", "CLICOLOR_FORCE", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
)  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, in which nothing is signed in and no `up` runs."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("PARTITA_KEYRING", "off")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def fake() -> Iterator[FakePartita]:
    with serve_fake() as served:
        yield served


@pytest.fixture
def signed_in(fake: FakePartita, monkeypatch: pytest.MonkeyPatch) -> FakePartita:
    """The server that the environment names, with a token for it."""
    monkeypatch.setenv("PARTITA_URL", fake.url)
    monkeypatch.setenv("PARTITA_TOKEN", TOKEN)
    return fake


@pytest.fixture
def open_client() -> Iterator[Callable[..., Client]]:
    """Return what opens a client, which is closed at the end."""
    with ExitStack() as stack:
        yield lambda url, **more: stack.enter_context(Client(url, **more))
