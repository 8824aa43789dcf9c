"""Image registries for tests, each on a private port: over TLS, with passwords, with tokens.

    with registries.plain(folder) as registry:
        registry.url, registry.host

`docker-registry` (Debian) does the work; the token server is ours.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.support import servers
from tests.support.http_threads import serve_http
from tests.support.packages import program

USER, PASSWORD = servers.REGISTRY_USER, servers.REGISTRY_PASSWORD
SERVICE, ISSUER = "partita-tests", "partita-tests-issuer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRegistry:
    url: str
    storage: Path
    username: str = ""
    secret: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def entry(self, registry_id: str, **more: Any) -> dict[str, Any]:
        """Its entry in the platform settings."""
        return {
            "registryId": registry_id,
            "name": registry_id,
            "provider": "Generic OCI",
            "registryUrl": self.url,
            "username": self.username,
            "secret": self.secret,
            "allowLocalNetwork": True,
            **more,
        }

    def blob(self, digest: str) -> Path:
        """The file of a blob in the registry's storage."""
        algorithm, _, hexadecimal = digest.partition(":")
        blobs = self.storage / "docker/registry/v2/blobs" / algorithm
        return blobs / hexadecimal[:2] / hexadecimal / "data"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate authority and a certificate of 127.0.0.1 and localhost that it signed."""

    authority: Path
    chain: Path
    key: Path


def certificate(folder: Path) -> Certificate:
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, key = _key(), _key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Partita tests")])
    authority = (
        _builder(name, name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    own = (
        _builder(subject, name, key.public_key())
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]
            ),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    made = Certificate(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    made.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    made.chain.write_bytes(own.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return made


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )


@contextlib.contextmanager
def plain(folder: Path, *, port: int = 0) -> Iterator[RunningRegistry]:
    """Over HTTP, open to everybody; a folder and port again are the same registry again."""
    with _registry(folder, "http", "", port=port) as registry:
        yield registry


@contextlib.contextmanager
def basic(folder: Path, tls: Certificate | None = None) -> Iterator[RunningRegistry]:
    """With a user name and a password."""
    folder.mkdir(parents=True, exist_ok=True)
    users = folder / "users"
    users.write_text(servers.REGISTRY_USERS)
    auth = f"auth: {{htpasswd: {{realm: tests, path: {users}}}}}\n"
    with _registry(folder, "https" if tls else "http", auth, tls) as registry:
        yield RunningRegistry(
            url=registry.url, storage=registry.storage, username=USER, secret=PASSWORD
        )


@contextlib.contextmanager
def with_tokens(
    folder: Path, tls: Certificate | None = None, *, catalog: bool = True
) -> Iterator[RunningRegistry]:
    """With bearer tokens (RS256) of a server of ours, which wants the user and the password.

    Without `catalog`, no token permits to list repositories.
    """
    folder.mkdir(parents=True, exist_ok=True)
    signer = certificate(folder / "signer")
    with token_server(signer, tls, catalog=catalog) as realm:
        auth = (
            f"auth: {{token: {{realm: '{realm}', service: {SERVICE}, issuer: {ISSUER}, "
            f"rootcertbundle: {signer.chain}}}}}\n"
        )
        with _registry(folder, "https" if tls else "http", auth, tls) as registry:
            yield RunningRegistry(
                url=registry.url, storage=registry.storage, username=USER, secret=PASSWORD
            )


@contextlib.contextmanager
def _registry(
    folder: Path, scheme: str, auth: str, tls: Certificate | None = None, port: int = 0
) -> Iterator[RunningRegistry]:
    folder.mkdir(parents=True, exist_ok=True)
    port, storage = port or servers.free_port(), folder / "storage"
    secured = f", tls: {{certificate: {tls.chain}, key: {tls.key}}}" if tls else ""
    (folder / "config.yml").write_text(
        "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"
        f"storage: {{filesystem: {{rootdirectory: {storage}}}, delete: {{enabled: true}}}}\n"
        f'http: {{addr: "127.0.0.1:{port}", secret: only-for-tests{secured}}}\n{auth}'
    )
    binary = program("docker-registry")
    assert binary is not None, "docker-registry is missing"
    with servers.running(
        [binary, "serve", str(folder / "config.yml")],
        folder / "registry.log",
        ready=lambda: servers.listens(port),
    ):
        yield RunningRegistry(url=f"{scheme}://127.0.0.1:{port}", storage=storage)


class _Tokens(BaseHTTPRequestHandler):
    key: str
    key_id: str
    catalog: bool

    def do_GET(self) -> None:
        pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {pair}":
            self.send_response(401)
            self.end_headers()
            return
        scopes = parse_qs(urlsplit(self.path).query).get("scope", [])
        granted = [scope for scope in scopes if self.catalog or not scope.startswith("registry:")]
        body = json.dumps({"token": _token(self.key, self.key_id, granted)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Stay quiet."""


@contextlib.contextmanager
def token_server(
    signer: Certificate, tls: Certificate | None = None, *, catalog: bool = True
) -> Iterator[str]:
    """Yield the realm of a token server; it wants the user and the password."""
    facts = {"key": signer.key.read_text(), "key_id": _key_id(signer), "catalog": catalog}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
    if tls and context:
        context.load_cert_chain(tls.chain, tls.key)
    with serve_http(type("Tokens", (_Tokens,), facts), context) as server:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}/token"


def _token(key: str, key_id: str, scopes: list[str]) -> str:
    now = datetime.now(UTC)
    access = []
    for scope in scopes:
        kind, name, actions = scope.split(":", 2)
        access.append({"type": kind, "name": name, "actions": actions.split(",")})
    claims = {
        "iss": ISSUER, "sub": USER, "aud": SERVICE, "jti": str(uuid4()), "access": access,
        "iat": now, "nbf": now - timedelta(seconds=5), "exp": now + timedelta(minutes=5),
    }  # fmt: skip
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": key_id})


def _key_id(signer: Certificate) -> str:
    """The id of a key as libtrust makes it: base32 of its fingerprint, in twelve groups."""
    own = x509.load_pem_x509_certificate(signer.chain.read_bytes())
    public = own.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    text = base64.b32encode(hashlib.sha256(public).digest()[:30]).decode().rstrip("=")
    return ":".join(text[at : at + 4] for at in range(0, 48, 4))
