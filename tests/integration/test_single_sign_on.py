"""Single sign-on in Chromium, at a certified provider (npm oidc-provider), by its real pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from apps.accounts.models import User
from tests.support.browser import Reader, Server, reader
from tests.support.oidc import CLIENT_ID, CLIENT_SECRET, certified_provider

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("single-sign-on")
    made = Server(folder)
    callback = f"{made.url}/api/v1/auth/oidc/callback"
    with (
        certified_provider(folder / "provider.log", callback) as issuer,
        made.serve(
            OIDC_ENABLED="true",
            OIDC_PROVIDER_NAME="Example",
            OIDC_ISSUER_URL=issuer,
            OIDC_CLIENT_ID=CLIENT_ID,
            OIDC_CLIENT_SECRET=CLIENT_SECRET,
            OIDC_ADMIN_GROUPS="platform",
        ),
    ):
        yield made


@pytest.fixture
def visitor(browser: Browser, server: Server) -> Iterator[Reader]:
    with reader(browser, server) as who:
        yield who
        ours = [said for said in who.complaints if who.url in said or "Refused" in said]
        assert ours == [], "the provider's own pages may complain"


def leave_as(visitor: Reader, name: str) -> Page:
    """Press the button and sign in at the provider, whose pages ask for a name and for consent."""
    page = visitor.page
    visitor.open("/sign-in?next=/suites")
    page.get_by_role("link", name="Continue with Example").click()
    page.get_by_placeholder("Enter any login").fill(name)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    return page


def test_grace_signs_in_for_the_first_time_and_again(visitor: Reader, browser: Browser):
    page = leave_as(visitor, "grace")
    page.get_by_role("button", name="Continue").click()

    page.wait_for_url("**/suites")
    expect(page.locator("details.menu > summary")).to_have_text("Grace Hopper")
    grace = User.objects.get(email="grace@example.org")
    assert grace.is_admin, "a member of the group platform"
    cookies = {each["name"]: each for each in visitor.context.cookies(visitor.url)}
    assert cookies["partita_session"]["httpOnly"]
    assert "partita_oidc_state" not in cookies

    page.locator("details.menu > summary").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    page.get_by_role("link", name="Continue with Example").click()
    page.wait_for_url(f"{visitor.url}/")
    expect(page.locator("details.menu > summary")).to_have_text("Grace Hopper")
    assert User.objects.count() == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("eve", "has not verified your email address"),
        ("mallory", "did not send an email address"),
    ],
)
def test_who_has_no_verified_address_reads_why_not(visitor: Reader, name: str, words: str):
    page = leave_as(visitor, name)
    page.get_by_role("button", name="Continue").click()

    page.wait_for_url("**/auth/callback")
    expect(page.get_by_role("alert")).to_contain_text(words)
    assert not User.objects.exists()


def test_who_cancels_reads_it_and_can_begin_again(visitor: Reader):
    page = leave_as(visitor, "grace")
    page.get_by_role("link", name="Cancel").click()

    page.wait_for_url("**/auth/callback")
    expect(page.get_by_role("alert")).to_contain_text("canceled")
    page.get_by_role("link", name="Back to sign-in").click()
    page.wait_for_url("**/sign-in")
    assert not User.objects.exists()
