"""What a first start makes below TLS_AUTO_DIR, and every later one renews.

    authority.crt authority.key                                 signs the pairs; of nobody else
    ca.crt server.crt server.key secret-key task-api-key        the orchestrator's own
    gateway/ca.crt client.* inbound.* webhook-secret            the gateway's TLS_AUTO_DIR
    watcher/ca.crt client.* secret-key                          the watcher's
    orchestrator-worker/secret-key                              the workers'

Files appear whole, with mode 0600. One that is there is never written over, except a certificate
made here that ends within 30 days, or that a crash left without its key.

(reference: sync-stack 7.3)
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from sync_stack.configuration.startup import (
    SECRET_KEY,
    TASK_API_KEY,
    WEBHOOK_SECRET,
    StateFolderUnusable,
    read_secret,
)
from sync_stack.rpc.authority import (
    Authority,
    CertificateUsage,
    is_ours,
    self_signed,
    still_valid,
)
from sync_stack.rpc.tls import (
    AUTO_CA,
    AUTO_CLIENT,
    AUTO_INBOUND,
    AUTO_SERVER,
    TlsFiles,
    TlsPair,
    TlsUnreadable,
    certificate,
)

AUTHORITY: Final = ("authority.crt", "authority.key")
GATEWAY, WATCHER, WORKER = "gateway", "watcher", "orchestrator-worker"
RENEW_BEFORE: Final = timedelta(days=30)
# A new authority is trusted everywhere for a day before it signs what is shown.
RENEW_AUTHORITY_BEFORE: Final = RENEW_BEFORE + timedelta(days=1)
_SERVER_NAMES: Final = ("orchestrator-api", "localhost")
_INBOUND_NAMES: Final = ("gateway", "localhost")
_SECRET_BYTES: Final = 48
_LOCK: Final = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """`made` are the files written now; `notes` is what an operator should look at."""

    made: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """For the log: where the files are, never what is in them."""
        made = ", ".join(map(str, self.made))
        return (*([f"made {made}"] if made else []), *self.notes)


def prepare(folder: Path, now: datetime) -> Prepared:
    """Make what is missing, renew what is due; one process at a time.

    Raises StateFolderUnusable.
    """
    try:
        with _lock(folder):
            work = _Work(folder, now)
            work.run()
    except OSError as error:
        name = error.filename or folder
        raise StateFolderUnusable(f"TLS_AUTO_DIR={folder}: {name}: {error.strerror}") from None
    return Prepared(made=tuple(work.made), notes=tuple(work.notes))


@dataclass
class _Work:
    """One pass over the folder, under its lock."""

    folder: Path
    now: datetime
    made: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self) -> None:
        gateway, watcher, worker = (self.folder / name for name in (GATEWAY, WATCHER, WORKER))
        for path in (gateway, watcher, worker):
            path.mkdir(mode=0o700, exist_ok=True)
        authority = self._authority((self.folder, gateway, watcher))
        self._sign(authority, self.folder, AUTO_SERVER, _SERVER_NAMES, CertificateUsage.SERVER)
        self._sign(authority, gateway, AUTO_CLIENT, (GATEWAY,), CertificateUsage.CLIENT)
        self._sign(authority, watcher, AUTO_CLIENT, (WATCHER,), CertificateUsage.CLIENT)
        self._pair(gateway, AUTO_INBOUND, lambda: self_signed(_INBOUND_NAMES, self.now))
        self._secret(SECRET_KEY, (self.folder, watcher, worker))
        self._secret(TASK_API_KEY, (self.folder,))
        self._secret(WEBHOOK_SECRET, (gateway,))

    def _authority(self, trusting: Sequence[Path]) -> Authority:
        """Known to all who trust it before it signs anything new."""
        pair = self._pair(
            self.folder, AUTHORITY, lambda: Authority.create(self.now), RENEW_AUTHORITY_BEFORE
        )
        for folder in trusting:
            root = folder / AUTO_CA
            # The earlier roots stay while they last: their certificates are still shown.
            known = still_valid(root.read_bytes(), self.now) if root.exists() else []
            if pair.cert not in known:
                self._write(root, b"".join([pair.cert, *known]))
        try:
            return Authority.read(pair)
        except TlsUnreadable as error:
            raise StateFolderUnusable(f"{self.folder / AUTHORITY[1]}: {error}") from None

    def _sign(
        self,
        authority: Authority,
        where: Path,
        files: tuple[str, str],
        names: tuple[str, ...],
        usage: CertificateUsage,
    ) -> None:
        self._pair(where, files, lambda: authority.pair(names, usage, self.now))

    def _pair(
        self,
        where: Path,
        names: tuple[str, str],
        make: Callable[[], TlsPair],
        renew_before: timedelta = RENEW_BEFORE,
    ) -> TlsPair:
        files = TlsFiles(cert=where / names[0], key=where / names[1])
        kept = self._find_kept(files, renew_before)
        if kept is not None:
            return kept
        pair = make()
        self._write(files.cert, pair.cert)  # first: a key alone is never ours
        self._write(files.key, pair.key)
        return pair

    def _find_kept(self, files: TlsFiles, renew_before: timedelta) -> TlsPair | None:
        """None: there is no pair, or one of ours that is due or has lost its key."""
        if not files.cert.exists():
            if files.key.exists():
                raise StateFolderUnusable(f"{files.key}: is there without {files.cert}; remove it")
            return None
        try:
            found = certificate(files.cert.read_bytes())
        except TlsUnreadable as error:
            advice = f"remove it and {files.key}, and a pair is made"
            raise StateFolderUnusable(f"{files.cert}: {error}; {advice}") from None
        if is_ours(found):
            due = found.not_valid_after_utc - self.now <= renew_before
            return None if due else _whole(files)
        return self._from_operator(files, found.not_valid_after_utc)

    def _from_operator(self, files: TlsFiles, end: datetime) -> TlsPair:
        """Return the pair that an operator has put here, which is used as it is."""
        if end <= self.now:
            raise StateFolderUnusable(
                f"{files.cert}: expired on {end:%Y-%m-%d}, and was not made here: replace it and "
                f"{files.key}, or remove both, and a pair is made"
            )
        if end - self.now <= RENEW_BEFORE:
            self.notes.append(f"{files.cert}: ends on {end:%Y-%m-%d}; replace it and {files.key}")
        try:
            return files.read()
        except TlsUnreadable as error:
            raise StateFolderUnusable(str(error)) from None

    def _secret(self, name: str, folders: Sequence[Path]) -> None:
        """The same in all folders; a folder that lost it gets it back from another."""
        found = {folder: read_secret(folder, name) for folder in folders}
        values = {value for value in found.values() if value}
        if len(values) > 1:
            paths = ", ".join(str(folder / name) for folder, value in found.items() if value)
            raise StateFolderUnusable(f"{paths}: differ; remove all but the one in use")
        value = values.pop() if values else secrets.token_urlsafe(_SECRET_BYTES)
        for folder, known in found.items():
            if not known:
                self._write(folder / name, f"{value}\n".encode())

    def _write(self, path: Path, content: bytes) -> None:
        """Whole or not at all, for its owner only."""
        scratch = path.with_name(f".{path.name}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(scratch, flags, 0o600), "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
        self.made.append(path)


def _whole(files: TlsFiles) -> TlsPair | None:
    """None when a crash came between the two files."""
    try:
        return files.read()
    except TlsUnreadable:
        return None


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
