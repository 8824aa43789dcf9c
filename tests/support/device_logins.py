"""`partita login --device` that waits, and a browser in which a person decides on its page."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

import httpx

from tests.support.typed import Typed


def sign_in(browser: httpx.Client, credentials: Mapping[str, str]) -> None:
    """Sign in by the page, as a person does."""
    form = hidden_fields(browser.get("/sign-in")) | dict(credentials)
    answer = browser.post("/sign-in", data=form, headers=_referer(browser))
    assert (answer.status_code, answer.url.path != "/sign-in") == (200, True), answer.text


def hidden_fields(page: httpx.Response) -> dict[str, str]:
    """Return the fields of a page's form that nobody types: the token against other sites."""
    assert page.status_code == 200, page.text
    found = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text))
    assert "csrfmiddlewaretoken" in found
    return found


def _referer(browser: httpx.Client) -> dict[str, str]:
    """Return what a browser tells of its own accord and Django wants to see by TLS."""
    return {"Referer": str(browser.base_url)}


class DeviceLogin:
    """A login that waits for a person; `link` is what it told to open, `code` what to compare."""

    def __init__(self, typed: Typed, url: str, *options: str) -> None:
        self.process: subprocess.Popen[str] = typed.start("login", url, "--device", *options)
        assert self.process.stderr is not None
        first, second = self.process.stderr.readline(), self.process.stderr.readline()
        self.link = first.removeprefix("open ").strip()
        self.code = second.removeprefix("and confirm the code ").partition(";")[0]
        assert re.fullmatch(r"[A-Z]{4}-[A-Z]{4}", self.code), first + second

    def confirm(self, browser: httpx.Client, decision: str, **choice: str) -> str:
        """Decide on the page behind the link, by the form that it has; return what it says."""
        page = browser.get(self.link)
        assert f"data-user-code>{self.code}<" in page.text
        assert re.search(r"Program</dt><dd>partita \S+ on \S+</dd>", page.text)
        form = hidden_fields(page) | choice
        done = browser.post(f"/device/{decision}", data=form, headers=_referer(browser))
        assert done.status_code == 200, done.text
        return done.text

    def ends(self, code: int) -> str:
        """Wait for its end with this exit code; return what it said since."""
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, out) == (code, ""), err
        return err
