"""Before the orchestrator serves: addresses, certificates, checks, tables, generated files."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from django.core.management import call_command
from django.db import Error as StoreError
from django.db import connection

from kernel import clock
from sync_stack.configuration.startup import StartRefused, StateFolderUnusable, unavailable
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.selectors import tasks
from sync_stack.rpc import first_start
from sync_stack.rpc.tls import AUTO_SERVER, TlsFiles, TlsUnreadable, auto_files

log: Final = logging.getLogger("partita.sync.orchestrator")
STORE_WAIT_S: Final = 60.0
_POLL_INTERVAL_S: Final = 1.0


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of `:8000` or `host:8000`. Raises StartRefused."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:  # noqa: PLR2004
        raise StartRefused([f"{text!r} is not an address such as :8000 or host:8000"])
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - a server listens


def grpc_files() -> TlsFiles | None:
    """Return the operator's files, else, in production, generated ones. Raises StartRefused."""
    cert, key, ca = conf.grpc_tls()
    if bool(cert) != bool(key):
        raise StartRefused(["GRPC_TLS_CERT and GRPC_TLS_KEY: set both or neither"])
    if cert:
        return TlsFiles(cert=Path(cert), key=Path(key), ca=Path(ca) if ca else None)
    folder = conf.tls_auto_dir()
    return auto_files(Path(folder), AUTO_SERVER) if folder else None


def refuse_unsafe() -> None:
    """Refuse to start production without TLS or a task API key. Raises StartRefused."""
    lines = _unusable_files()
    if conf.is_production() and grpc_files() is None:
        lines.append(
            "GRPC_TLS_CERT, GRPC_TLS_KEY and GRPC_TLS_CA: required with APP_ENV=production: set "
            "them to the PEM files of the server's certificate and of the authority of its "
            "callers, or TLS_AUTO_DIR to a folder where all of them are made"
        )
    if conf.is_production() and not conf.task_api_keys():
        lines.append(
            "TASK_API_KEYS or TASK_API_KEY_FILE: required with APP_ENV=production: set one to a "
            "random text, or TLS_AUTO_DIR to a folder where a key is made"
        )
    if lines:
        raise StartRefused(lines)


def _unusable_files() -> list[str]:
    files = grpc_files()
    if files is None:
        return []
    try:
        files.require_ca()
        end = files.read().ends_at()
    except TlsUnreadable as error:
        return [f"GRPC_TLS_CERT, GRPC_TLS_KEY, GRPC_TLS_CA: {error}"]
    if end <= clock.now():
        return [f"GRPC_TLS_CERT: {files.cert} expired on {end:%Y-%m-%d}: replace it and its key"]
    return []


def log_first_start() -> None:
    for line in conf.first_start():
        log.info("%s", line, extra={"event": "first_start"})


def renew_certificates() -> None:
    """Renew generated certificates; listeners and other processes reload the files themselves."""
    folder = conf.tls_auto_dir()
    if not folder:
        return
    try:
        lines = first_start.prepare(Path(folder), clock.now()).lines()
    except StateFolderUnusable as error:
        log.error("certificates cannot be renewed: %s", error, extra={"event": "renewal_failed"})  # noqa: TRY400
        return
    for line in lines:
        log.info("%s", line, extra={"event": "renewal"})


def migrate(
    *,
    wait_s: float = STORE_WAIT_S,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Create or change the tables; wait for the store if it is away. Raises StartRefused."""
    end = monotonic() + wait_s
    while (problem := _store_problem()) and monotonic() < end:
        sleep(_POLL_INTERVAL_S)
    if problem:
        raise unavailable(f"the store did not answer within {wait_s:g} s: {problem}")
    call_command("migrate", interactive=False, verbosity=0)


def _store_problem() -> str:
    """Return the error of the store, empty if it answers, with or without tables."""
    try:
        connection.ensure_connection()
        if connection.vendor == "mongodb":  # connects with the first query, and needs no table
            tasks.check_store()
    except StoreError as error:
        connection.close()
        return type(error).__name__
    return ""
