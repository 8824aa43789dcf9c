"""The pictures of docs/images: each page as a reader finds it. `make pictures` writes them.

Without PICTURES_TO, the test takes the pictures and writes none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Browser, Page, expect

from tests.apps.executions.runs import Worker
from tests.integration.pages import failed_run, kept_run
from tests.support.browser import Reader, reader
from tests.support.parts import need
from tests.support.up import Up

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
TAKEN = os.environ.get("PICTURES_TO", "")
MOST_BYTES = 120_000  # of a picture
SIZE = {"width": 1040, "height": 640}
PAGES = {  # picture → path
    "suites": "/suites",
    "suite": "/suites/shop",
    "mocks": "/suites/shop?tab=api",
    "catalog": "/catalog",
    "profiles": "/profiles/shop",
    "environments": "/environments",
    "settings": "/settings/general",
    "team": "/team",
    "account": "/account",
}
OF_NOBODY = {"sign-in": "/sign-in"}


@pytest.fixture
def ann(browser: Browser, server: Any) -> Any:
    """An administrator with a window of the size of the pictures, in light colors."""
    with reader(browser, server, color_scheme="light", reduced_motion="reduce") as who:
        who.page.set_viewport_size(SIZE)  # type: ignore[arg-type]
        who.sign_in()
        get_user_model().objects.update(is_admin=True)
        yield who


def take(who: Reader, name: str, path: str) -> None:
    """Open a page and take its picture, into PICTURES_TO if that is set."""
    who.open(path)
    store(who.page, name)


def store(page: Page, name: str) -> None:
    """Take the picture of what a page shows now, into PICTURES_TO if that is set."""
    page.evaluate("document.fonts.ready")
    expect(page.get_by_text("Loading…").filter(visible=True)).to_have_count(0)
    taken = page.screenshot(animations="disabled", caret="hide")
    assert len(taken) <= MOST_BYTES, f"{name}: {len(taken)} bytes"
    if TAKEN:
        (Path(TAKEN) / f"{name}.png").write_bytes(taken)


def test_each_page_has_its_picture(ann: Reader, worker: Worker) -> None:
    kept_run(ann, worker)
    run = failed_run(ann, worker)
    take(ann, "failed-run", f"/executions/{run.id}")
    take(ann, "home", "/")
    for name, path in PAGES.items():
        take(ann, name, path)
    ann.context.clear_cookies()
    for name, path in OF_NOBODY.items():
        take(ann, name, path)

    assert ann.complaints == []


@pytest.mark.docker
def test_a_run_in_progress_has_its_picture(browser: Browser, tmp_path: Path) -> None:
    engine = need("TEST_DOCKER_HOST", "a Docker engine")
    with Up(tmp_path / "up", UP_DEMO="0", DOCKER_HOST=engine) as up:
        launched = up.partita("run", "launch", "shop", "--profile", "slow.yaml")
        assert launched.returncode == 0, launched.stderr
        person = up.credentials()
        context = browser.new_context(color_scheme="light", reduced_motion="reduce")
        page = context.new_page()
        page.set_viewport_size(SIZE)  # type: ignore[arg-type]
        page.goto(f"{up.url}/sign-in?next=/executions/{launched.stdout.split()[0]}")
        page.get_by_label("Email").fill(person["email"])
        page.get_by_label("Password").fill(person["password"])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("tab", name="Graph").click()
        expect(page.get_by_text("3 running")).to_be_visible()  # the tests
        store(page, "run")
        context.close()
