"""The checklist of what browsers and strangers try on any site, on every route that it concerns.

The rows of routes.txt are the routes; docs/security.md names the threats and further tests.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from apps.http.asgi import ControlPlaneHandler
from tests.integration.test_every_route import ROWS
from tests.integration.world import PASSWORD, World, prepare

SITE = "https://partita.example"
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
FORM = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
STREAMS = {
    "/api/v1/engine/overview/stream",
    "/api/v1/executions/edge-1/events",
    "/api/v1/executions/edge-1/logs",
    "/api/v1/executions/edge-1/probes",
    "/api/v1/executions/edge-1/repeats/edge-1/logs",
    "/api/v1/sandboxes/events",
    "/api/v1/streams",
}
AWAY = (
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example/",
    "\\\\evil.example",
    "https:evil.example",
    "javascript:alert(1)",
    "///evil.example",
    "/\t/evil.example",
    "http://partita.example@evil.example/",
)


@pytest.fixture
def world(transactional_db, settings, tmp_path) -> World:
    prepare(settings, tmp_path)
    settings.CSRF_TRUSTED_ORIGINS = [SITE]
    settings.SECURE_HSTS_SECONDS = 31_536_000
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    return World()


class Browser:
    """A client with cookies, on a site that a proxy serves by https."""

    def __init__(self) -> None:
        self.cookies = httpx.Cookies()

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def go() -> httpx.Response:
            app: Any = ControlPlaneHandler()
            transport = httpx.ASGITransport(app=app, client=("203.0.113.9", 4711))
            async with httpx.AsyncClient(
                transport=transport, base_url=SITE, cookies=self.cookies
            ) as client:
                answer = await client.request(method, path, **more)
                self.cookies = client.cookies
                return answer

        return asyncio.run(go())

    def sign_in(self, email: str, password: str = PASSWORD, **more: str) -> httpx.Response:
        """By the form, as a browser does."""
        form = self.ask("GET", "/sign-in")
        (token,) = FORM.findall(form.text)
        fields = {"csrfmiddlewaretoken": token, "email": email, "password": password, **more}
        return self.ask("POST", "/sign-in", data=fields, headers={"Origin": SITE})


def address(row: str) -> tuple[str, str]:
    """A method and a path that fits the route; what it names does not exist."""
    method, path = row.split()
    return ("GET" if method == "*" else method), re.sub(r"{[^}]*}", "edge-1", path)


def test_headers_against_framing_guessing_and_scripts_are_on_every_answer(world: World):
    browser = Browser()
    for method, path in map(address, ROWS):
        headers = browser.ask(method, path).headers
        policy = headers["Content-Security-Policy"]
        assert headers["X-Frame-Options"] == "DENY", (method, path)
        assert headers["X-Content-Type-Options"] == "nosniff", (method, path)
        assert headers["Referrer-Policy"] == "no-referrer", (method, path)
        assert headers["Strict-Transport-Security"].startswith("max-age=31536000"), (method, path)
        assert "frame-ancestors 'none'" in policy or policy == "sandbox", (method, path)
        assert "unsafe" not in policy, (method, path)
        assert not {"Server", "X-Powered-By"} & set(headers), (method, path)


def test_cookies_are_out_of_reach_of_scripts_plain_http_and_other_sites(world: World):
    answer = Browser().sign_in("ada@example.org")

    assert answer.status_code == 302
    cookies = {each.split("=")[0]: each for each in answer.headers.get_list("Set-Cookie")}
    session = cookies["partita_session"]
    assert all(word in session for word in ("HttpOnly", "Secure", "SameSite=Lax", "Path=/"))
    assert all("Secure" in each and "SameSite=" in each for each in cookies.values())
    assert not any("Domain=" in each for each in cookies.values())


def test_no_unsafe_method_acts_by_the_cookie_alone(world: World):
    browser = Browser()
    browser.sign_in("root@example.org")
    for method, path in map(address, ROWS):
        if method in UNSAFE and path not in by_body_alone():
            answer = browser.ask(method, path, json={}, headers={"Origin": "https://evil.example"})
            assert answer.status_code in (401, 403), (method, path, answer.status_code)
            if answer.status_code == 401:
                assert path.startswith(("/api/v1/agent", "/api/v1/agents")), path
    assert browser.ask("GET", "/api/v1/auth/me").status_code == 200  # still signed in


def by_body_alone() -> set[str]:
    """Routes that look at no cookie: what their body holds is the credential."""
    names = (
        *("sign-up", "sign-in", "refresh", "oidc/exchange", "forgot-password", "reset-password"),
        *("ci", "device", "device/token"),
    )
    return {*(f"/api/v1/auth/{name}" for name in names), "/api/v1/invitations/preview"}


@pytest.mark.parametrize("away", AWAY)
def test_no_sign_in_leads_to_another_site(world: World, away: str):
    answer = Browser().sign_in("ada@example.org", next=away)

    assert (answer.status_code, answer.headers["Location"]) == (302, "/")


def test_nobody_learns_who_has_an_account(world: World, monkeypatch):
    """By text, and by time: the count of password hashes is the time that is seen from outside."""
    known, unknown = "ada@example.org", "nobody@example.org"
    hashed = count_hashes(monkeypatch)

    def said(email: str, ask: Callable[[str], httpx.Response]) -> tuple[int, str, int]:
        before = len(hashed)
        answer = ask(email)
        text = re.sub(r'[0-9a-f]{8}-[0-9a-f-]{27}|"[A-Za-z0-9]{64}"', "-", answer.text)
        return answer.status_code, text.replace(email, "-"), len(hashed) - before

    def by_form(email: str) -> httpx.Response:
        return Browser().sign_in(email, "Wrong-Horse-1")

    def by_api(email: str) -> httpx.Response:
        body = {"email": email, "password": "Wrong-Horse-1"}
        return Browser().ask("POST", "/api/v1/auth/sign-in", json=body)

    for ask in (by_form, by_api):
        assert said(known, ask) == said(unknown, ask)
    assert said(known, by_form)[2] == 1


def count_hashes(monkeypatch) -> list[str]:
    from django.contrib.auth.hashers import BasePasswordHasher, get_hasher

    hasher: type[BasePasswordHasher] = type(get_hasher())
    made: list[str] = []
    real = hasher.encode

    def encode(self: BasePasswordHasher, password: str, *arguments: Any, **more: Any) -> str:
        made.append(str(self.algorithm))
        return str(real(self, password, *arguments, **more))

    monkeypatch.setattr(hasher, "encode", encode)
    return made


def test_brute_force_ends_in_a_lock_also_for_the_right_password(world: World):
    wrong = (Browser().sign_in("ada@example.org", f"Wrong-Horse-{n}") for n in range(11))
    statuses = [answer.status_code for answer in wrong]

    assert statuses[-1] == 429
    assert Browser().sign_in("ada@example.org").status_code == 429


def test_a_planted_session_is_not_the_one_that_is_signed_in(world: World):
    planted, victim = Browser(), Browser()
    planted.sign_in("bob@example.org")
    key = planted.cookies["partita_session"]
    victim.cookies.set("partita_session", key, domain="partita.example")

    victim.sign_in("ada@example.org")

    assert victim.cookies["partita_session"] != key
    me = planted.ask("GET", "/api/v1/auth/me")
    assert me.status_code == 401 or me.json()["email"] == "bob@example.org"


def test_only_streams_take_a_credential_in_their_address(world: World):
    """It stands in histories and logs of proxies; browsers cannot send streams a header."""
    token = world.caller("admin").token
    for method, path in map(address, ROWS):
        named = "&".join(f"{name}={token}" for name in ("token", "access_token", "ticket", "key"))
        nobody = Browser().ask(method, path)
        answer = Browser().ask(method, f"{path}?{named}")
        if nobody.status_code == 401:
            assert (answer.status_code == 401) != (path in STREAMS), (method, path)
        assert token not in answer.text or path == "/reset-password", (method, path)
