"""The browser, the server of the pages and who sits before them, for every test of pages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Browser

from apps.agents.models import Agent
from apps.executions.models import WorkLease
from kernel import clock
from tests.apps.executions.runs import Worker
from tests.integration.pages import AXE_VERSION
from tests.support.browser import PASSWORD, Reader, Server, chromium, reader
from tests.support.npm import npm_package
from tests.support.packages import program
from tests.support.parts import need


def scope_of_pages(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    """Return `session` where `-m` begins with `browser`, so that every test is one of pages.

    Elsewhere a browser must end with its module: Playwright keeps a loop in the thread of the
    tests, in which no test that is a coroutine could run.
    """
    is_of_pages = str(config.getoption("markexpr")).startswith("browser")
    return "session" if is_of_pages else "module"


@pytest.fixture(scope=scope_of_pages)
def browser() -> Iterator[Browser]:
    if program("chromium") is None:
        need("TEST_CHROMIUM", "Chromium")
    with pytest.MonkeyPatch.context() as patch, chromium() as running:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")  # Playwright keeps a loop in this thread
        yield running


@pytest.fixture(scope=scope_of_pages)
def server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve the store of the tests, which each test empties."""
    with Server(tmp_path_factory.mktemp("pages")).serve() as running:
        yield running


@pytest.fixture
def ada(browser: Browser, server: Server) -> Iterator[Reader]:
    """Somebody who is signed in; at the end, the console must have said nothing."""
    with reader(browser, server) as who:
        who.sign_in()
        yield who
        assert who.complaints == []


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    """The API for somebody who has just signed up by it."""
    with httpx.Client(base_url=server.url) as client:
        facts = {"fullName": "Ada Lovelace", "email": "ada@example.org", "password": PASSWORD}
        answer = client.post("/api/v1/auth/sign-up", json=facts)
        client.headers["Authorization"] = f"Bearer {answer.json()['token']}"
        yield client


@pytest.fixture
def worker() -> Worker:
    """A runner that stays online however long a busy machine takes for a test."""
    worker = Worker()
    Agent.objects.update(last_heartbeat_at=clock.now() + timedelta(hours=1))
    return worker


@pytest.fixture
def nobody_admits() -> None:
    """The server's sweep, every two seconds, would admit what a test queues."""
    late = clock.now() + timedelta(hours=1)
    WorkLease.objects.update_or_create(
        name="sweep", defaults={"holder": "the test", "expires_at": late}
    )


@pytest.fixture(scope="module")
def axe() -> str:
    """The script that looks for what keeps people from using a page."""
    folder = npm_package("axe-core", AXE_VERSION)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()
