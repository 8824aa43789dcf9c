"""The pages in a real browser: the server as a process on the test's own store, and Chromium.

The test drives the store itself (launches, claims, logs) and sees what the pages make of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from django.contrib.auth import get_user_model
from django.db import connection
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests.support.packages import program
from tests.support.processes import ROOT, until
from tests.support.quiet_network import quiet_network
from tests.support.servers import free_port

if TYPE_CHECKING:
    from apps.accounts.models import User

PATIENCE_MS = 30_000  # pages of a busy machine come late; no test of pages times them
expect.set_options(timeout=PATIENCE_MS)

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PASSWORD = "Str0ngEnough"


class Server:
    """The control plane on the database of this test run (SQLite: a file both processes open)."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        self.log = folder / "web.log"
        self.environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "platform_site.settings.test",
            "SQLITE_PATH": str(connection.settings_dict["NAME"]),
            "DATA_DIR": str(folder),
            "PORT": str(self.port),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "platform_site.asgi:application"]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), "--no-access-log"],
                cwd=ROOT, env=self.environment, stdout=output, stderr=output,
            )  # fmt: skip
        until(self._answers, within_s=60, what=f"the server answers, see {self.log}")

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx.get(f"{self.url}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    @contextmanager
    def serve(self, **environment: str) -> Iterator[Server]:
        """Serve in this block, with more variables of the environment."""
        self.environment |= environment
        try:
            self.start()
            yield self
        finally:
            self.kill()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@contextmanager
def chromium() -> Iterator[Browser]:
    binary = program("chromium")
    assert binary is not None, "whoever asks has looked whether Chromium is installed"
    with (
        tempfile.TemporaryDirectory(prefix="partita-browser-") as folder,
        quiet_network(Path(folder), binary) as (command, more),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=command, args=[*ARGUMENTS, *more])
        yield browser
        browser.close()


@dataclass
class Reader:
    """Somebody with a browser window; `complaints` are what the console should not have said."""

    context: BrowserContext
    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    @property
    def user(self) -> User:
        return get_user_model().objects.get(email="ada@example.org")

    def open(self, path: str) -> None:
        self.page.goto(self.url + path)

    def sign_in(self) -> None:
        """An account and its session, without the pages for it."""
        with httpx.Client(base_url=self.url, follow_redirects=False) as client:
            client.get("/sign-up")
            token = client.cookies["csrftoken"]
            facts = {"fullName": "Ada Lovelace", "email": "ada@example.org", "password": PASSWORD}
            answer = client.post("/sign-up", data=facts | {"csrfmiddlewaretoken": token})
            assert answer.status_code == 302, answer.text
            self.context.add_cookies(
                [
                    {"name": name, "value": client.cookies[name], "url": self.url}
                    for name in ("partita_session", "csrftoken")
                ]
            )


def fill_sign_in(page: Page, account: Mapping[str, str]) -> None:
    """Fill the form of /sign-in in with the `email` and `password` of `account`, and send it."""
    page.get_by_label("Email").fill(account["email"])
    page.get_by_label("Password", exact=True).fill(account["password"])
    page.get_by_role("button", name="Sign in", exact=True).click()


@contextmanager
def reader(browser: Browser, server: Server, **options: Any) -> Iterator[Reader]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    page = context.new_page()
    who = Reader(context, page, server.url)

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            who.complaints.append(message.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: who.complaints.append(f"uncaught: {error}"))
    page.on("dialog", lambda dialog: who.complaints.append(f"dialog: {dialog.message}"))
    yield who
    context.close()
