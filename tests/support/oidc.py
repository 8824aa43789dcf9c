"""Two OpenID providers: a certified one from npm, and a stand-in that lies on demand."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.http_threads import serve_http
from tests.support.npm import npm_package
from tests.support.processes import ROOT, until
from tests.support.servers import free_port

PACKAGE: Final = "oidc-provider"
VERSION: Final = "9.13.3"
CLIENT_ID: Final = "partita"
CLIENT_SECRET: Final = "the-secret-of-the-client-0123456789"


@contextmanager
def certified_provider(log: Path, *redirects: str) -> Iterator[str]:
    """The issuer of a running provider; `grace`, `eve` and `mallory` sign in, with any password."""
    with _running_provider("oidc_provider.mjs", log, *redirects) as issuer:
        yield issuer


@contextmanager
def ci_provider(log: Path, secret: str, claims: dict[str, Any]) -> Iterator[str]:
    """The issuer of a CI system, which gives who has `secret` a token at `/ci-token`."""
    with _running_provider("ci_provider.mjs", log, secret, json.dumps(claims)) as issuer:
        yield issuer


@contextmanager
def _running_provider(name: str, log: Path, *words: str) -> Iterator[str]:
    folder, port = npm_package(PACKAGE, VERSION), free_port()
    script = ROOT / "tests" / "support" / name
    issuer = f"http://localhost:{port}"
    with log.open("wb") as output:
        command = ["node", str(script), str(folder), str(port), *words]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        until(lambda: _answers(issuer, process, log), within_s=30, what="the provider answers")
        yield issuer
    finally:
        process.kill()
        process.wait()


def _answers(issuer: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        return httpx.get(f"{issuer}/.well-known/openid-configuration").status_code == 200
    except httpx.TransportError:
        return False


@functools.cache
def signing_key(_of: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@dataclass
class StandInProvider:
    """A provider on loopback whose answers a test can spoil.

    `claims` go into the ID token as they are, `userinfo` into userinfo; `key` signs. `header`:
    fields of the token's header to replace. A code is good for one exchange, if its PKCE verifier
    fits. `document`: fields of the discovery document to replace.
    """

    issuer: str
    claims: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    key: rsa.RSAPrivateKey = field(default_factory=lambda: signing_key("provider"))
    published: Any = None  # the public key; by default that of `key`
    algorithm: str = "RS256"
    status: int = 200  # of the token endpoint
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def authorize(self, url: str, code: str = "code-1") -> dict[str, str]:
        """Sign in at the address that the browser was sent to; what its query said."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self.codes[code] = query
        return query

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/jwks",
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        } | self.document

    def jwks(self) -> dict[str, Any]:
        public = self.published or self.key.public_key()
        entry = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(public))
        return {"keys": [entry | {"kid": "k1", "alg": "RS256", "use": "sig"}]}

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        begun = self.codes.pop(form.get("code", ""), None)
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        shown = base64.urlsafe_b64encode(challenge).rstrip(b"=").decode()
        if self.status != 200 or begun is None or begun["code_challenge"] != shown:
            return max(self.status, 400), {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "sub-1",
            "iat": now,
            "exp": now + 60,
            "nonce": begun["nonce"],
        } | self.claims
        secret: Any = self.key if self.algorithm.startswith("RS") else CLIENT_SECRET
        present = {name: value for name, value in claims.items() if value is not None}
        signed = jwt.encode(present, secret, algorithm=self.algorithm, headers={"kid": "k1"})
        return 200, {"id_token": signed, "access_token": "at-1", "token_type": "Bearer"}


@contextmanager
def stand_in_provider() -> Iterator[StandInProvider]:
    with serve_http(_StandInHandler) as server:
        provider = StandInProvider(f"http://127.0.0.1:{server.server_port}")
        server.provider = provider  # type: ignore[attr-defined]
        yield provider


class _StandInHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        provider: StandInProvider = self.server.provider  # type: ignore[attr-defined]
        answers = {
            "/.well-known/openid-configuration": provider.discovery,
            "/jwks": provider.jwks,
            "/userinfo": lambda: {"sub": "sub-1"} | provider.userinfo,
        }
        self._answer(200, answers[self.path]())

    def do_POST(self) -> None:
        provider: StandInProvider = self.server.provider  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self._answer(*provider.token(form))

    def _answer(self, status: int, document: Any) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: a test reads what it needs from the answers."""
