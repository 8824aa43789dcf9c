"""An issuer of CI tokens on loopback, with answers that a test can spoil."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

import jwt

from tests.support.http_threads import serve_http
from tests.support.oidc import signing_key

AUDIENCE: Final = "https://partita.example"


def github_claims(**changes: Any) -> dict[str, Any]:
    """Return what GitHub says of a push to the main branch of acme/shop."""
    return {
        "sub": "repo:acme/shop:ref:refs/heads/main",
        "repository": "acme/shop",
        "repository_owner": "acme",
        "ref": "refs/heads/main",
        "ref_type": "branch",
        "event_name": "push",
        "workflow": "CI",
        "run_id": "1234",
        "run_attempt": "1",
        "sha": "9f2b1c",
    } | changes


def gitlab_claims(**changes: Any) -> dict[str, Any]:
    """Return what GitLab says of a push to the main branch of acme/tools/shop."""
    return {
        "sub": "project_path:acme/tools/shop:ref_type:branch:ref:main",
        "project_path": "acme/tools/shop",
        "namespace_path": "acme/tools",
        "ref": "main",
        "ref_type": "branch",
        "ref_path": "refs/heads/main",
        "ref_protected": "true",
        "pipeline_source": "push",
        "pipeline_id": "77",
        "job_id": "4711",
    } | changes


@dataclass
class CiIssuer:
    """`keys` are those that it publishes by key id. `status`, `jwks` and `document` spoil answers.

    `asked` are the paths that were asked for.
    """

    issuer: str
    keys: dict[str, Any] = field(default_factory=lambda: {"k1": signing_key("ci")})
    document: dict[str, Any] = field(default_factory=dict)
    jwks: Any = None
    status: int = 200
    asked: list[str] = field(default_factory=list)

    def token(
        self,
        claims: dict[str, Any] | None = None,
        *,
        key: Any = None,
        algorithm: str = "RS256",
        header: dict[str, Any] | None = None,
        **changes: Any,
    ) -> str:
        """Return a job's token; of `changes`, None takes a claim away."""
        now = int(time.time())
        whole = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "jti": str(uuid.uuid4()),
            "iat": now,
            "nbf": now - 5,
            "exp": now + 300,
            **(github_claims() if claims is None else claims),
            **changes,
        }
        present = {name: value for name, value in whole.items() if value is not None}
        signer = self.keys["k1"] if key is None else key
        return jwt.encode(present, signer, algorithm=algorithm, headers=header or {"kid": "k1"})

    def answer(self, path: str) -> Any:
        if path == "/jwks":
            return self.jwks if self.jwks is not None else {"keys": self._published()}
        return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/jwks"} | self.document

    def _published(self) -> list[dict[str, Any]]:
        to_jwk = jwt.algorithms.RSAAlgorithm.to_jwk
        return [
            {**json.loads(to_jwk(key.public_key())), "kid": key_id, "alg": "RS256", "use": "sig"}
            for key_id, key in self.keys.items()
        ]


@contextmanager
def ci_issuer() -> Iterator[CiIssuer]:
    with serve_http(_IssuerHandler) as server:
        issuer = CiIssuer(f"http://127.0.0.1:{server.server_port}")
        server.issuer = issuer  # type: ignore[attr-defined]
        yield issuer


class _IssuerHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        issuer: CiIssuer = self.server.issuer  # type: ignore[attr-defined]
        issuer.asked.append(self.path)
        answer = issuer.answer(self.path)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(issuer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: a test reads what it needs from `asked`."""
