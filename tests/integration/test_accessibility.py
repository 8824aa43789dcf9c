"""What axe finds on the pages, light on a desktop and dark on a phone: nothing serious."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Browser

from apps.accounts.api import Role, operator
from apps.accounts.models import Membership
from apps.console.domain.settings_sections import SECTIONS
from apps.platform_settings.api import replace_settings
from tests.apps.executions.runs import Worker
from tests.apps.platform_settings.documents import document
from tests.integration.pages import DESK_AND_PHONE, failed_run, findings, findings_everywhere
from tests.support.browser import Reader, reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
FOR_ALL = ["/sign-in", "/sign-up", "/forgot-password", "/reset-password?token=x", "/nowhere"]
FOR_ADA = [
    "/",
    "/suites",
    "/suites/hello",
    *(f"/suites/hello?tab={name}" for name in ("readme", "topology", "api", "source")),
    "/account",
    "/team",
]
FOR_EVERY_ROLE = [
    "/catalog",
    "/catalog?q=nothing+is+called+this",
    "/catalog/partita-redis",
    "/catalog/shop",
    "/suites/composite",
    "/suites/composite?tab=imports",
    "/profiles",
    "/profiles/hello",
    "/profiles/hello/default",
    "/profiles/hello/-/new",
    *(f"/settings/{name}" for name in SECTIONS),
    "/environments",
    "/environments?status=Zombie&q=nothing",
    "/environments/reap?id=run-0123456789ab",
]


def test_axe_finds_nothing_serious_on_the_pages_for_all(browser: Browser, server: Any, axe: str):
    context = browser.new_context()
    found = findings_everywhere(context.new_page(), axe, server.url, FOR_ALL)
    context.close()
    assert found == []


def test_axe_finds_nothing_serious_for_who_is_signed_in(ada: Reader, worker: Worker, axe: str):
    paths = [*FOR_ADA, f"/executions/{failed_run(ada, worker).id}"]
    assert findings_everywhere(ada.page, axe, ada.url, paths) == []


@pytest.fixture(params=["administrator", Role.VIEWER])
def member(request: pytest.FixtureRequest, browser: Browser, server: Any) -> Iterator[Reader]:
    with reader(browser, server) as who:
        who.sign_in()
        users = get_user_model().objects
        users.update(is_admin=True)
        replace_settings(operator(), document())
        if request.param == Role.VIEWER:
            users.update(is_admin=False)
            Membership.objects.update(role=Role.VIEWER)
        yield who


def test_axe_finds_nothing_serious_for_every_role(member: Reader, axe: str):
    assert findings_everywhere(member.page, axe, member.url, FOR_EVERY_ROLE) == []


def test_axe_finds_nothing_serious_in_what_the_page_of_a_suite_opens(member: Reader, axe: str):
    page, found = member.page, []
    for scheme, (width, height) in zip(("light", "dark"), DESK_AND_PHONE, strict=True):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"{member.url}/suites/shop?tab=api")
        page.locator("[data-surface=shop] > summary").click()
        page.locator("[data-operation=createOrder] > summary").click()
        page.get_by_role("region", name="Example accepted").wait_for()
        found += [f"{scheme} {width}: {one}" for one in findings(page, axe)]
        page.goto(f"{member.url}/suites/composite?tab=imports")
        page.get_by_text("What a new lock would change").click()
        page.get_by_text("dependencies.lock.yaml", exact=True).filter(visible=True).last.wait_for()
        found += [f"{scheme} {width}: {one}" for one in findings(page, axe)]

    assert found == []


def test_axe_itself_finds_what_is_wrong(browser: Browser, axe: str):
    page = browser.new_page()
    page.set_content("<main><h1>x</h1><img src='data:,'><input></main>")
    assert {one.split()[1] for one in findings(page, axe)} >= {"image-alt", "label"}
    page.close()


def test_axe_finds_nothing_serious_on_the_page_of_the_api(ada: Reader, axe: str):
    page, found = ada.page, []
    for scheme, (width, height) in zip(("light", "dark"), DESK_AND_PHONE, strict=True):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"{ada.url}/api/v1/docs")
        page.locator(".opblock").first.wait_for()
        found += [f"{scheme} {width}: {one}" for one in findings(page, axe)]
        page.locator(".opblock-summary-control").first.click()
        page.locator(".opblock-body").first.wait_for()
        found += [f"{scheme} {width}: {one}" for one in findings(page, axe)]

    assert found == []
    assert page.get_by_role("link", name="Partita").get_attribute("href") == "/"
