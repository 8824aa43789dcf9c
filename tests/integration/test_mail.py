"""Mail at a real SMTP server: a password that is reset in Chromium, invitations, TLS, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from apps.operations.api import MailUnavailable, RecipientRefused, send_mail
from tests.support import mail
from tests.support.browser import fill_sign_in
from tests.support.cluster import ADMIN, Cluster
from tests.support.mail import MailServer
from tests.support.processes import until

NEW = "Another-Horse-2"
in_chromium = [
    pytest.mark.browser,
]


@pytest.fixture(scope="module")
def post() -> Iterator[MailServer]:
    with mail.mail_server() as server:
        yield server


@pytest.fixture(scope="module")
def cluster(post: MailServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    address = f"smtp://localhost:{post.port}/?from=partita@example.org"
    folder = tmp_path_factory.mktemp("mail") / "cluster"
    with Cluster(folder, parts=["web", "celery"], environment={"EMAIL_URL": address}) as running:
        yield running


@pytest.fixture
def page(browser: Browser, cluster: Cluster) -> Iterator[Page]:
    context: BrowserContext = browser.new_context(base_url=cluster.url)
    yield context.new_page()
    context.close()


def sign_in(page: Page, password: str) -> None:
    page.goto("/sign-in")
    fill_sign_in(page, {"email": ADMIN["email"], "password": password})


class TestInChromium:
    pytestmark = in_chromium

    def test_a_forgotten_password_is_set_anew_by_the_mailed_link(
        self, page: Page, cluster: Cluster, post: MailServer
    ):
        page.goto("/sign-in")
        page.get_by_role("link", name="Forgot your password?").click()
        page.get_by_label("Email").fill(ADMIN["email"])
        page.get_by_role("button", name="Email me a link").click()
        expect(page.get_by_role("status")).to_contain_text("is on its way")

        until(lambda: post.taken, within_s=30, what="the mail is taken")
        message = post.taken.pop()
        assert (message["To"], message["From"]) == (ADMIN["email"], "partita@example.org")
        page.goto(mail.link_of(message))
        page.get_by_label("New password", exact=True).fill(NEW)
        page.get_by_label("New password again").fill("something else")
        page.get_by_role("button", name="Set the password").click()
        expect(page.get_by_role("alert")).to_contain_text("The two passwords differ")
        page.get_by_label("New password", exact=True).fill(NEW)
        page.get_by_label("New password again").fill(NEW)
        page.get_by_role("button", name="Set the password").click()
        expect(page.get_by_role("status")).to_contain_text("Your password is set")

        sign_in(page, ADMIN["password"])
        expect(page.get_by_role("alert")).to_contain_text("password is wrong")
        sign_in(page, NEW)
        expect(page.locator("details.menu > summary")).to_be_visible()
        self.invites_by_mail(page, post)

    def invites_by_mail(self, page: Page, post: MailServer) -> None:
        page.goto("/team")
        page.get_by_label("Email (optional)").fill("grace@example.org")
        page.get_by_role("button", name="Create a link").click()
        expect(page.get_by_role("status")).to_contain_text("We sent this link to grace@example.org")
        link = page.locator("[data-invitation-link]").text_content()
        assert mail.link_of(post.taken.pop()) == link

        page.goto("/team")
        page.get_by_label("Email (optional)").fill(mail.REFUSED)
        page.get_by_role("button", name="Create a link").click()
        expect(page.get_by_role("status")).to_contain_text("refuses this address")
        expect(page.locator("[data-invitation-link]")).to_be_visible()

    def test_no_log_line_holds_a_token(self, cluster: Cluster):
        logs = [(cluster.folder / f"{name}.log").read_text() for name in ("web", "celery")]
        assert not any("token=" in text.replace("token=***", "") for text in logs)


@pytest.fixture
def guarded(
    settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, db: None
) -> Iterator[MailServer]:
    """A server that asks for STARTTLS and a password, with a certificate that is trusted."""
    certificate = mail.certificate_of_localhost(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    with mail.mail_server(certificate) as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "localhost", server.port
        settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = mail.LOGIN
        settings.EMAIL_USE_TLS = True
        settings.DEFAULT_FROM_EMAIL = "partita@example.org"
        yield server


def send(to: str = "ada@example.org") -> None:
    send_mail(to, subject="Hello", text="Hello Ada")


def test_mail_is_sent_over_tls_with_a_password(guarded: MailServer):
    send()
    assert guarded.logins == [mail.LOGIN[0]]
    (message,) = guarded.taken
    assert message["Subject"] == "Hello"


def test_a_server_that_nobody_trusts_gets_neither_password_nor_mail(
    guarded: MailServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(MailUnavailable, match="certificate"):
        send()
    assert (guarded.logins, guarded.taken) == ([], [])


def test_a_wrong_password_is_told(guarded: MailServer, settings):
    settings.EMAIL_HOST_PASSWORD = "wrong"
    with pytest.raises(MailUnavailable, match="535"):
        send()


def test_a_refused_address_is_told_apart(guarded: MailServer):
    with pytest.raises(RecipientRefused):
        send(mail.REFUSED)


def test_a_server_that_is_away_is_told(guarded: MailServer, settings):
    settings.EMAIL_PORT = 1
    with pytest.raises(MailUnavailable, match="did not take the message"):
        send()
