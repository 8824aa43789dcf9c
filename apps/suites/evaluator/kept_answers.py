"""Answers of the evaluator on disk, for commands, which begin without anything in memory.

An answer depends on the request alone (text, env, limits, modules) and on the evaluator's code, so
its key is the digest of both and it is never out of date. What cannot be read or written is
evaluated anew: a file that is broken is replaced, one that is locked for long is left alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final, cast

from apps.suites.domain.calls import EvaluationAnswer, EvaluationRequest

FILE_NAME: Final = "evaluations.sqlite3"
MOST_ANSWERS: Final = 4096
MOST_BYTES: Final = 64 * 2**20  # of all answers, compressed
_LARGEST: Final = 2**20  # of one
_PAUSE_S: Final = 2.0  # for another process that writes
_ROOT: Final = Path(__file__).resolve().parents[3]
_CODE: Final = ("apps/suites/evaluator", "apps/suites/domain", "apps/suites/calls", "kernel")
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, content BLOB NOT NULL, "
    "used INTEGER NOT NULL) WITHOUT ROWID"
)
_FIND: Final = "SELECT content FROM answers WHERE key = ?"
_log: Final = logging.getLogger("partita.suites")


class KeptAnswers:
    """The answers in one file of a folder. It is thread-safe, and so is the file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._lock = threading.Lock()
        self._store: sqlite3.Connection | None = None
        self._used: set[str] = set()
        self._new: dict[str, bytes] = {}

    def find(self, request: EvaluationRequest) -> EvaluationAnswer | None:
        """Return the answer to an equal request, or None."""
        key = _key(request)
        with self._lock:
            rows = self._run(lambda store: store.execute(_FIND, [key]).fetchall())
        try:
            answer = json.loads(zlib.decompress(rows[0][0])) if rows else None
        except (zlib.error, ValueError, TypeError):
            return None
        self._used.add(key)
        return cast("EvaluationAnswer", answer) if isinstance(answer, dict) else None

    def keep(self, request: EvaluationRequest, answer: EvaluationAnswer) -> None:
        """Keep an answer, unless a limit of this machine ended the evaluation."""
        if answer.get("killed"):
            return
        content = zlib.compress(json.dumps(answer).encode(), 1)
        if len(content) <= _LARGEST:
            with self._lock:
                self._new[_key(request)] = content

    def write(self) -> None:
        """Write what is new, and forget what was used longest ago beyond the limits."""
        with self._lock:
            new, self._new = self._new, {}
            used, self._used = self._used - new.keys(), set()
            if new:
                self._run(lambda store: _write(store, new, used))
            if self._store is not None:
                self._store.close()
                self._store = None

    def _run(self, work: Callable[[sqlite3.Connection], list[Any]]) -> list[Any]:
        """Return the result of work on the file, nothing where that fails."""
        try:
            self._store = self._store or self._open()
            return work(self._store)
        except sqlite3.OperationalError as error:  # locked, read-only, no space left
            _log.debug("evaluations cannot be kept: %s", error)
        except sqlite3.DatabaseError:
            self._path.unlink(missing_ok=True)
            self._store = None
        except OSError as error:
            _log.debug("evaluations cannot be kept: %s", error)
        return []

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        store = sqlite3.connect(
            self._path, timeout=_PAUSE_S, isolation_level=None, check_same_thread=False
        )
        store.execute(_SCHEMA)
        return store


def _write(store: sqlite3.Connection, new: dict[str, bytes], used: set[str]) -> list[Any]:
    store.execute("BEGIN IMMEDIATE")
    with store:  # ends the transaction
        newest = store.execute("SELECT coalesce(max(used), 0) + 1 FROM answers").fetchone()[0]
        store.executemany(
            "UPDATE answers SET used = ? WHERE key = ?", [(newest, key) for key in used]
        )
        store.executemany(
            "INSERT OR REPLACE INTO answers (key, content, used) VALUES (?, ?, ?)",
            [(key, content, newest) for key, content in new.items()],
        )
        store.executemany("DELETE FROM answers WHERE key = ?", list(_beyond(store)))
    return []


def _beyond(store: sqlite3.Connection) -> Iterator[tuple[str]]:
    """Yield the keys of the answers that are too many, those used longest ago."""
    size = 0
    rows = store.execute("SELECT key, length(content) FROM answers ORDER BY used DESC, key")
    for number, (key, length) in enumerate(rows.fetchall(), start=1):
        size += length
        if number > MOST_ANSWERS or size > MOST_BYTES:
            yield (key,)


def _key(request: EvaluationRequest) -> str:
    text = json.dumps([evaluator_digest(), request], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1)
def evaluator_digest() -> str:
    """Return what changes with the code of the evaluator, its modules and its interpreter."""
    versions = f"{platform.python_version()} {metadata.version('starlark-pyo3')}"
    whole = hashlib.sha256(versions.encode())
    for folder in _CODE:
        for path in sorted((_ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".star"):
                whole.update(f"{path.relative_to(_ROOT)}\0".encode() + path.read_bytes())
    return whole.hexdigest()
