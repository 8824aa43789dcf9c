"""A stand-in for GitHub: its OAuth pages and the two routes of its API that a sign-in needs."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.http_threads import serve_http

CLIENT_ID: Final = "partita-here"
CLIENT_SECRET: Final = "the-secret-of-the-app"


@dataclass
class GitHub:
    """`user` and `emails`: who signs in, as the API names them. `asked`: the last redirect."""

    url: str = ""
    user: dict[str, Any] = field(default_factory=dict)
    emails: list[dict[str, Any]] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)
    denies: bool = False
    codes: dict[str, str] = field(default_factory=dict)  # code → PKCE challenge
    tokens: set[str] = field(default_factory=set)

    def visited_by(self, number: int, email: str, *, verified: bool = True) -> None:
        self.user = {"id": number, "login": email.partition("@")[0], "name": "Grace Hopper"}
        self.emails = [
            {"email": "old@example.org", "primary": False, "verified": False},
            {"email": email, "primary": True, "verified": verified},
        ]

    def authorize(self, query: dict[str, str]) -> str:
        """Return where the browser is sent: nobody is asked, all agree."""
        self.asked = query
        if self.denies:
            answer = {"error": "access_denied", "state": query["state"]}
        else:
            code = secrets.token_urlsafe(8)
            self.codes[code] = query.get("code_challenge", "")
            answer = {"code": code, "state": query["state"]}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def exchange(self, form: dict[str, str]) -> dict[str, str]:
        challenge = self.codes.pop(form.get("code", ""), None)
        verifier = form.get("code_verifier", "").encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).rstrip(b"=").decode()
        is_ours = (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        if challenge is None or digest != challenge or not is_ours:
            return {"error": "bad_verification_code"}
        token = secrets.token_urlsafe(8)
        self.tokens.add(token)
        return {"access_token": token, "token_type": "bearer", "scope": "user:email"}


def _handler(github: GitHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            token = self.headers.get("Authorization", "").removeprefix("token ")
            if parts.path == "/login/oauth/authorize":
                self.send_response(302)
                self.send_header("Location", github.authorize(query))
                self.end_headers()
            elif token not in github.tokens:
                self._answer({"message": "Bad credentials"}, status=401)
            elif parts.path == "/api/v3/user":
                self._answer(github.user)
            else:
                self._answer(github.emails)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._answer(github.exchange(form))

        def _answer(self, content: Any, status: int = 200) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: Any) -> None:
            """Print nothing."""

    return Handler


@contextmanager
def github_stand_in() -> Iterator[GitHub]:
    github = GitHub()
    with serve_http(_handler(github)) as server:
        github.url = f"http://127.0.0.1:{server.server_port}"
        yield github
