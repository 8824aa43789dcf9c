"""What the environment says of certificates (reference: sync-stack 2.10)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sync_stack.configuration.conf import Environment
from sync_stack.rpc.tls import AUTO_CLIENT, TlsFiles, auto_files

CERT: Final = "GRPC_TLS_CERT"
KEY: Final = "GRPC_TLS_KEY"
CA: Final = "GRPC_TLS_CA"
AUTO: Final = "TLS_AUTO_DIR"


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


def required_pair(environment: Environment, cert: str, key: str, *, what: str) -> str:
    """The sentence for production without that pair."""
    folder = environment.text(AUTO)
    found = f": {folder} holds none" if folder else ""
    return (
        f"{cert} and {key}: required with APP_ENV=production: set them to the PEM files of {what}, "
        f"or {AUTO} to the folder that run_orchestrator fills for this process{found}"
    )
