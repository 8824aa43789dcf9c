"""Copy one store into another: a backup by one process, a restore by a second one.

Which models there are depends on the store (MongoDB has keys of its own kind), so no process can
have two kinds of store open.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from apps.console import conf
from apps.operations.api import ExitCode
from kernel.errors import InvalidInput

_FORMS: Final = (
    "expected sqlite:///PATH, postgres://USER@HOST/DATABASE, mongodb://HOST/DATABASE, or env:NAME"
)
_OTHERS: Final = ("POSTGRES_DSN_FILE", "MONGO_URI_FILE", "MONGO_USER", "MONGO_PASSWORD")


@dataclass(frozen=True, slots=True)
class CopyResult:
    """`document`: that of the restored backup; None if a step failed, which has printed why."""

    exit_code: int
    document: Mapping[str, Any] | None = None


def copy_store(source: str, target: str, *, max_bytes: int | None = None) -> CopyResult:
    """Copy by a temporary archive (mode 0600) in the folder for temporary files.

    Raise InvalidInput for an address that names no store.
    """
    of_source, of_target = store_variables("--from", source), store_variables("--to", target)
    if of_source == of_target:
        raise InvalidInput("--from and --to name the same store")
    limit = [] if max_bytes is None else ["--max-bytes", str(max_bytes)]
    with tempfile.TemporaryDirectory(prefix="partita-copy-") as folder:
        archive = str(Path(folder) / "store.backup")
        saved = _manage(of_source, "backup", archive)
        if saved.exit_code:
            return saved
        return _manage(of_target, "restore", archive, *limit)


def store_variables(option: str, address: str) -> dict[str, str]:
    """Return the variables of the environment that name the store at an address."""
    if address.startswith("env:"):
        name = address.removeprefix("env:")
        address = conf.variable(name)
        if not address:
            raise InvalidInput(f"{option} env:{name}: the variable {name} is not set")
    scheme = address.partition(":")[0]
    cleared = dict.fromkeys(_OTHERS, "")
    if scheme == "sqlite" and (path := _path_of(address)):
        return {**cleared, "DB_DRIVER": "sqlite", "SQLITE_PATH": path}
    if scheme in ("postgres", "postgresql"):
        return {**cleared, "DB_DRIVER": "postgres", "POSTGRES_DSN": address}
    if scheme in ("mongodb", "mongodb+srv"):
        database = urlsplit(address).path.lstrip("/") or "partita"
        return {**cleared, "DB_DRIVER": "mongo", "MONGO_URI": address, "MONGO_DB": database}
    # without the address: it may hold a password
    raise InvalidInput(f"{option}: {_FORMS}")


def _path_of(address: str) -> str:
    """`sqlite:///srv/x` and `sqlite:/srv/x` are absolute, `sqlite:x` is from here."""
    parts = urlsplit(address)
    if parts.netloc or not parts.path.strip("/"):
        return ""
    return str(Path(unquote(parts.path)).absolute())


def _manage(variables: dict[str, str], verb: str, *words: str) -> CopyResult:
    ended = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, str(conf.manage_file()), "store", verb, *words, "-o", "json"],
        env=conf.environment() | variables,
        stdout=subprocess.PIPE,
        check=False,
    )
    if ended.returncode:
        return CopyResult(ended.returncode)
    return CopyResult(ExitCode.OK, json.loads(ended.stdout))
