"""The browser and the server of the pages: one of each for a worker that runs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.support.browser import Server, chromium
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
def shared_browser() -> Iterator[Browser]:
    if program("chromium") is None:
        need("TEST_CHROMIUM", "Chromium")
    with pytest.MonkeyPatch.context() as patch, chromium() as running:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")  # Playwright keeps a loop in this thread
        yield running


@pytest.fixture(scope=scope_of_pages)
def shared_server(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Serve the store of the tests, which each test empties."""
    running = Server(tmp_path_factory.mktemp("pages"))
    running.start()
    yield running
    running.kill()
