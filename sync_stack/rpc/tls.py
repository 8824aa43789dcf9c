"""Pairs of certificate and key in files, read anew when the files change.

(reference: sync-stack 2.10)
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from sync_stack.configuration.conf import Environment

CERT: Final = "GRPC_TLS_CERT"
KEY: Final = "GRPC_TLS_KEY"
CA: Final = "GRPC_TLS_CA"
AUTO: Final = "TLS_AUTO_DIR"
MAX_PEM: Final = 2**20
# What a first start in production writes below TLS_AUTO_DIR, each process into its own folder.
AUTO_CA: Final = "ca.crt"
AUTO_CLIENT: Final = ("client.crt", "client.key")
AUTO_SERVER: Final = ("server.crt", "server.key")
AUTO_INBOUND: Final = ("inbound.crt", "inbound.key")


class TlsUnreadable(Exception):
    """A certificate or key that cannot be read or used; the message names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsPair:
    """The content of the files, PEM; `ca` None: the roots of the system."""

    cert: bytes
    key: bytes
    ca: bytes | None = None

    def ends_at(self) -> datetime:
        """When the certificate itself, the first of the file, expires. Raises TlsUnreadable."""
        return certificate(self.cert).not_valid_after_utc


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    cert: Path
    key: Path
    ca: Path | None = None

    def read(self) -> TlsPair:
        """Raises TlsUnreadable, also when key and certificate do not belong together."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = TlsPair(
            cert=_content(self.cert),
            key=_content(self.key),
            ca=_content(self.ca) if self.ca else None,
        )
        try:
            context.load_cert_chain(self.cert, self.key, password=_no_password)
            if pair.ca is not None:
                context.load_verify_locations(cadata=pair.ca.decode("ascii"))
        except (ssl.SSLError, ValueError, OSError) as error:
            names = ", ".join(str(path) for path in (self.cert, self.key, self.ca) if path)
            raise TlsUnreadable(f"{names}: not usable for TLS: {error}") from None
        return pair

    def require_ca(self) -> Path:
        """Return the CA by which a listener checks its callers; raise TlsUnreadable without."""
        if self.ca is None:
            raise TlsUnreadable("GRPC_TLS_CA is required: it says whose client certificates count")
        return self.ca


def certificate(pem: bytes) -> x509.Certificate:
    """Return the first certificate of the text; raise TlsUnreadable."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise TlsUnreadable(f"no certificate: {error}") from None


def auto_files(folder: Path, names: tuple[str, str], *, ca: bool = True) -> TlsFiles | None:
    """The generated pair of that name below TLS_AUTO_DIR; None where there is none."""
    cert, key = (folder / name for name in names)
    if not (cert.is_file() and key.is_file()):
        return None
    return TlsFiles(cert=cert, key=key, ca=folder / AUTO_CA if ca else None)


def client_credentials(pair: TlsPair) -> Any:
    """Return credentials of a channel that presents its certificate."""
    return grpc.ssl_channel_credentials(
        root_certificates=pair.ca, private_key=pair.key, certificate_chain=pair.cert
    )


def server_credentials(files: TlsFiles) -> Any:
    """Return credentials of a listener that demands a certificate signed by `ca`.

    A new handshake uses changed files; if they cannot be read, the last good ones stay in force.
    Raises TlsUnreadable if the files cannot be read the first time, and without `ca`.
    """
    files.require_ca()
    first = files.read()
    return grpc.dynamic_ssl_server_credentials(
        _configuration(first), _reloading(files, first), require_client_authentication=True
    )


def _reloading(files: TlsFiles, first: TlsPair) -> Callable[[], Any]:
    last = first

    def read_if_changed() -> Any:
        nonlocal last
        try:
            pair = files.read()
        except TlsUnreadable:
            return None  # half written: the next handshake looks again
        if pair == last:
            return None
        last = pair
        return _configuration(pair)

    return read_if_changed


def _configuration(pair: TlsPair) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(pair.key, pair.cert)], root_certificates=pair.ca
    )


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PEM + 1)
    except OSError as error:
        raise TlsUnreadable(f"{path}: {error.strerror or error}") from None
    if not content.strip() or len(content) > MAX_PEM:
        raise TlsUnreadable(f"{path}: no PEM of at most {MAX_PEM} bytes")
    return content


def _no_password() -> str:
    raise ValueError("the key is encrypted; a key without passphrase is needed")


def client_files(environment: Environment) -> TlsFiles | None:
    """Return the pair for calls to the orchestrator: the operator's, else the generated one."""
    files = tls_pair(environment, CERT, KEY, ca=CA)
    return files or generated_pair(environment, AUTO_CLIENT)


def tls_pair(environment: Environment, cert: str, key: str, *, ca: str = "") -> TlsFiles | None:
    """The files of a pair; half of one, or a trust root alone, is a problem."""
    given = {name: environment.text(name) for name in (cert, key)}
    root = environment.text(ca) if ca else ""
    if all(given.values()):
        return TlsFiles(
            cert=Path(given[cert]), key=Path(given[key]), ca=Path(root) if root else None
        )
    if any(given.values()) or root:
        missing = " and ".join(name for name, value in given.items() if not value)
        present = ", ".join(name for name in (cert, key, ca) if name and environment.is_set(name))
        environment.problems.append(f"{missing}: required, because {present} is set")
    return None


def generated_pair(
    environment: Environment, names: tuple[str, str], *, ca: bool = True
) -> TlsFiles | None:
    folder = environment.text(AUTO)
    return auto_files(Path(folder), names, ca=ca) if folder else None


def missing_pair_problem(environment: Environment, cert: str, key: str, *, what: str) -> str:
    """Return the problem of a process in production that has no such pair."""
    folder = environment.text(AUTO)
    found = f": {folder} holds none" if folder else ""
    return (
        f"{cert} and {key}: required with APP_ENV=production: set them to the PEM files of {what}, "
        f"or {AUTO} to the folder that run_orchestrator fills for this process{found}"
    )
