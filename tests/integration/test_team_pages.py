"""Accounts in browsers: an invitation and the run that is shared, and the admin."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Browser, expect

from apps.accounts.models import User
from apps.accounts.services.sign_up import sign_up
from tests.integration.pages import three_steps
from tests.support.browser import PASSWORD, Reader, Server, reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_an_invited_colleague_sees_the_shared_run_within_a_minute(
    browser: Browser, server: Server, ada: Reader
):
    run = three_steps(ada)
    started = time.monotonic()
    ada.open("/team")
    ada.page.get_by_role("button", name="Create a link").click()
    link = ada.page.locator("[data-invitation-link]").inner_text()

    with reader(browser, server) as bob:
        bob.page.goto(link)
        expect(bob.page.get_by_role("status")).to_contain_text("invites you to “Ada's workspace”")
        assert "#" not in bob.page.url
        bob.page.get_by_role("link", name="Create an account and join").click()
        bob.page.get_by_label("Full name").fill("Bob")
        bob.page.get_by_label("Email").fill("bob@example.org")
        bob.page.get_by_label("Password").fill(PASSWORD)
        bob.page.get_by_role("button", name="Create account").click()
        bob.page.get_by_role("link", name="Runs", exact=True).wait_for()

        bob.open(f"/executions/{run.id}")

        expect(bob.page.locator(".step[data-step=seed]")).to_be_visible()
        assert time.monotonic() - started < 60
        assert bob.complaints == []
    bobs = User.objects.get(email="bob@example.org")
    assert bobs.workspace_id == ada.user.workspace_id


def test_who_has_an_account_signs_in_and_joins(browser: Browser, server: Server, ada: Reader):
    ada.open("/team")
    ada.page.locator('form[action="/team/invite"] select').select_option("viewer")
    ada.page.get_by_role("button", name="Create a link").click()
    link = ada.page.locator("[data-invitation-link]").inner_text()
    with reader(browser, server) as bob:
        bob.open("/sign-up")
        bob.page.get_by_label("Full name").fill("Bob")
        bob.page.get_by_label("Email").fill("bob@example.org")
        bob.page.get_by_label("Password").fill(PASSWORD)
        bob.page.get_by_role("button", name="Create account").click()
        bob.page.get_by_role("link", name="Runs", exact=True).wait_for()

        bob.page.goto(link)
        bob.page.get_by_role("button", name="Join as Bob").click()
        bob.page.get_by_role("heading", name="Runs", exact=True).wait_for()
        bob.page.get_by_role("link", name="Team", exact=True).click()

        expect(bob.page.get_by_role("heading", name="Ada's workspace")).to_be_visible()
        expect(bob.page.get_by_role("button", name="Create a link")).to_be_hidden()
        bob.page.get_by_role("button", name="Switch to Bob's workspace").click()
        expect(bob.page.get_by_role("heading", name="Bob's workspace")).to_be_visible()
        assert bob.complaints == []


def test_an_administrator_disables_and_enables_an_account_in_the_admin(ada: Reader):
    bob = sign_up(full_name="Bob", email="bob@example.org", password=PASSWORD)
    User.objects.filter(email="ada@example.org").update(is_admin=True)
    page = ada.page
    for scheme, action in (("light", "disable"), ("dark", "enable")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        ada.open("/admin/accounts/user/?q=bob")
        page.locator("input.action-select").check()
        page.locator("select[name=action]").select_option(action)
        page.get_by_role("button", name="Go").click()
        expect(page.get_by_role("heading", name="these accounts")).to_be_visible()
        page.get_by_role("button", name="Yes, do it").click()

        expect(page.get_by_text(f"bob@example.org: {action}d")).to_be_visible()
        assert User.objects.get(pk=bob.pk).is_active == (action == "enable")
