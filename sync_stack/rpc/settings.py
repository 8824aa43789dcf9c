"""What the environment says of a client's certificate (contract 2.10)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sync_stack.configuration.environment import Environment
from sync_stack.rpc.tls import AUTO_CLIENT, TlsFiles, auto_files

CERT: Final = "GRPC_TLS_CERT"
KEY: Final = "GRPC_TLS_KEY"
CA: Final = "GRPC_TLS_CA"


def client_files(environment: Environment) -> TlsFiles | None:
    """The operator's pair, else the generated one; half a pair is a problem."""
    cert, key, ca = (environment.text(name) for name in (CERT, KEY, CA))
    if cert and key:
        return TlsFiles(cert=Path(cert), key=Path(key), ca=Path(ca) if ca else None)
    if cert or key or ca:
        missing = " and ".join(name for name, text in ((CERT, cert), (KEY, key)) if not text)
        environment.problems.append(f"{missing}: required, because {CERT}, {KEY} or {CA} is set")
        return None
    folder = environment.text("TLS_AUTO_DIR")
    return auto_files(Path(folder), AUTO_CLIENT) if folder else None
