"""Addresses and certificates of the listeners."""

from __future__ import annotations

from pathlib import Path

from sync_stack.configuration.startup import StartRefused
from sync_stack.orchestrator import conf
from sync_stack.rpc.tls import AUTO_SERVER, TlsFiles, auto_files


def address_of(text: str) -> tuple[str, int]:
    """`:8000`, `host:8000`. Raises StartRefused."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:  # noqa: PLR2004
        raise StartRefused([f"{text!r} is no address such as :8000 or host:8000"])
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - a server listens


def grpc_files() -> TlsFiles | None:
    """The operator's pair, else, in production, the generated one. Raises StartRefused."""
    cert, key, ca = conf.grpc_tls()
    if bool(cert) != bool(key):
        raise StartRefused(["GRPC_TLS_CERT and GRPC_TLS_KEY: set both or neither"])
    if cert:
        return TlsFiles(cert=Path(cert), key=Path(key), ca=Path(ca) if ca else None)
    folder = conf.tls_auto_dir()
    return auto_files(Path(folder), AUTO_SERVER) if folder else None
