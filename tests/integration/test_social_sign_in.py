"""Sign-in at a social provider: GitHub, by django-allauth, against a stand-in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, expect

from apps.accounts.models import ExternalAccount, User
from tests.support.browser import Server, reader
from tests.support.social import CLIENT_ID, CLIENT_SECRET, GitHub, github_stand_in

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def github() -> Iterator[GitHub]:
    with github_stand_in() as running:
        yield running


@pytest.fixture(scope="module")
def server(
    django_db_setup: None, github: GitHub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("social"))
    with made.serve(
        PUBLIC_API_URL=made.url,
        SOCIAL_PROVIDERS="github,gitlab",
        SOCIAL_GITHUB_CLIENT_ID=CLIENT_ID,
        SOCIAL_GITHUB_CLIENT_SECRET=CLIENT_SECRET,
        SOCIAL_GITHUB_SETTINGS=json.dumps({"GITHUB_URL": github.url}),
    ):
        yield made


@pytest.fixture(autouse=True)
def _grace(github: GitHub) -> None:
    github.denies = False
    github.visited_by(7, "grace@example.org")


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as browser_like:
        yield browser_like


def go(client: httpx.Client, path: str = "/accounts/github/login/") -> httpx.Response:
    """Follow the redirects until there is a page."""
    return client.get(path, follow_redirects=True)


def error_of(answer: httpx.Response) -> str:
    assert answer.url.path == "/auth/callback", answer.url
    return answer.url.fragment


def is_signed_in(client: httpx.Client) -> bool:
    return client.get("/api/v1/auth/me").status_code == 200


@pytest.mark.browser
def test_the_button_signs_in_and_comes_back_to_the_page(browser: Browser, server: Server):
    with reader(browser, server) as visitor:
        visitor.open("/sign-in?next=/suites")
        visitor.page.get_by_role("link", name="Continue with GitHub").click()
        visitor.page.wait_for_url("**/suites")
        expect(visitor.page.locator("details.menu > summary")).to_have_text("Grace Hopper")
        cookies = {each["name"]: each for each in visitor.context.cookies(server.url)}
        assert cookies["partita_session"]["httpOnly"]
        assert visitor.complaints == []


def test_the_address_and_a_pkce_challenge_go_to_the_provider(client: httpx.Client, github: GitHub):
    go(client)
    assert github.asked["redirect_uri"] == f"{client.base_url}/accounts/github/login/callback/"
    assert github.asked["code_challenge_method"] == "S256"
    assert "scope" in github.asked


def test_a_host_header_moves_the_callback_nowhere(client: httpx.Client, github: GitHub):
    answer = client.get("/accounts/github/login/", headers={"Host": "evil.example"})
    assert "evil" not in answer.headers["Location"]


def test_the_second_sign_in_finds_the_account_by_its_number(client: httpx.Client, github: GitHub):
    go(client)
    github.visited_by(7, "moved@example.org")
    go(client)
    assert [user.email for user in User.objects.all()] == ["grace@example.org"]
    assert ExternalAccount.objects.get().provider == "github"


def test_an_unverified_address_makes_and_links_nothing(client: httpx.Client, github: GitHub):
    github.visited_by(8, "eve@example.org", verified=False)
    assert error_of(go(client)) == "error=oidc_email_unverified"
    assert not User.objects.exists()


def test_a_state_of_another_browser_is_refused(client: httpx.Client, server: Server):
    away = client.get("/accounts/github/login/")
    back = httpx.get(away.headers["Location"]).headers["Location"]
    with httpx.Client(base_url=server.url, timeout=30) as other:
        assert error_of(go(other, back)) == "error=oidc_state_invalid"
        assert not is_signed_in(other)


def test_a_callback_counts_once(client: httpx.Client):
    away = client.get("/accounts/github/login/")
    back = httpx.get(away.headers["Location"]).headers["Location"]
    assert client.get(back).headers["Location"] == "/"
    client.post("/sign-out")
    client.cookies.clear()
    assert error_of(go(client, back)) == "error=oidc_state_invalid"


def test_who_cancels_reads_it(client: httpx.Client, github: GitHub):
    github.denies = True
    assert error_of(go(client)) == "error=oidc_denied"


def test_an_answer_that_makes_no_sense_signs_nobody_in(client: httpx.Client, github: GitHub):
    github.user = {"login": "nobody"}
    assert error_of(go(client)) == "error=oidc_provider_error"
    assert not is_signed_in(client)


@pytest.mark.parametrize("url", ["//evil.example/", "https://evil.example/", "/\\evil.example"])
def test_the_way_back_leads_nowhere_else(client: httpx.Client, url: str):
    away = client.get("/accounts/github/login/", params={"return_url": url})
    back = httpx.get(away.headers["Location"]).headers["Location"]
    target = client.get(back).headers["Location"]
    assert urlsplit(target)[:3] == ("", "", "/")


def test_what_is_not_set_up_says_which_variable_is_missing(client: httpx.Client):
    providers = client.get("/api/v1/auth/sso/providers").json()["providers"]
    assert [(each["providerId"], each["name"], each["enabled"]) for each in providers] == [
        ("github", "GitHub", True),
        ("gitlab", "GitLab", False),
    ]
    assert providers[1]["hint"] == "SOCIAL_GITLAB_CLIENT_ID and SOCIAL_GITLAB_CLIENT_SECRET not set"
    for name, words in (("gitlab", "SOCIAL_GITLAB_CLIENT_ID"), ("google", "SOCIAL_PROVIDERS")):
        answer = client.get(f"/accounts/{name}/login/")
        assert answer.status_code == 404
        assert words in answer.text
