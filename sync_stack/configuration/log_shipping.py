"""Log lines to a search index, beside stdout: Elasticsearch's `_bulk`, from a thread of its own.

Nobody who logs waits for the index. Lines wait in a bounded queue; what does not fit, and what the
index refuses for good, is dropped and counted.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import httpx
import msgspec

from kernel.background import BackgroundThread
from sync_stack.configuration.logs import JsonLines
from sync_stack.configuration.metrics import dropped_lines

log: Final = logging.getLogger("partita.sync.shipping")
MOST_LINES: Final = 10_000
MOST_BYTES: Final = 64 * 2**20
BATCH_LINES: Final = 500
BATCH_BYTES: Final = 2**20
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
_GATHER_S: Final = 0.25
_TIMEOUT_S: Final = 5.0
_CREATE: Final = b'{"create":{}}\n'  # the only action that data streams take
_OURS: Final = frozenset({400, 413})  # the lines are wrong, not the index
_REFUSED: Final = 400
_BUSY: Final = 429
_FAILED: Final = 500
Dropped = Callable[[str, int], None]  # reason, lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A node of the index; with `password`, Basic credentials."""

    url: str
    username: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippingSettings:
    """`endpoints` are tried in turn; `service` tells the processes apart in the index."""

    endpoints: tuple[Endpoint, ...]
    index: str
    service: str


class _Refused(Exception):
    """The index cannot take lines now; the message holds neither lines nor credentials."""


class _Queue:
    """Bounded in lines and bytes; `put` never waits."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()

    def put(self, line: bytes) -> bool:
        with self._changed:
            if len(self._lines) >= MOST_LINES or self._bytes + len(line) > MOST_BYTES:
                return False
            self._lines.append(line)
            self._bytes += len(line)
            self._changed.notify()
            return True

    def wait(self, ended: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._lines or ended())

    def take(self) -> list[bytes]:
        """A batch; empty when there is nothing."""
        with self._changed:
            batch: list[bytes] = []
            size = 0
            while self._lines and len(batch) < BATCH_LINES:
                size += len(self._lines[0])
                if batch and size > BATCH_BYTES:
                    break
                batch.append(self._lines.popleft())
                self._bytes -= len(batch[-1])
            return batch

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class Shipper(logging.Handler):
    """A handler of the root logger; it must be made after a fork, for its thread."""

    def __init__(
        self,
        settings: ShippingSettings,
        *,
        dropped: Dropped = lambda reason, lines: dropped_lines.labels(reason).inc(lines),
    ) -> None:
        super().__init__()
        self._settings = settings
        self._dropped = dropped
        self._json = JsonLines()
        self._queue = _Queue()
        self._ended = threading.Event()
        self._failing = False
        self._turn = 0
        self._client = httpx.Client(
            timeout=_TIMEOUT_S, verify=ssl.create_default_context(), trust_env=False
        )
        self._thread = BackgroundThread("shipping", self._run, ended=self._ended)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """What shipping itself logs stays on stdout, or a failure would feed on itself."""
        if self._thread.is_current() or self._ended.is_set():
            return
        try:
            line = self._line(record)
        except Exception:  # noqa: BLE001 - as every handler: a bad line must not fail who logs it
            self.handleError(record)
            return
        if not self._queue.put(line):
            self._dropped("queue_full", 1)

    def stop(self, within_s: float) -> None:
        """Send what waits, for so long; the rest is dropped."""
        self._ended.set()
        self._queue.wake()
        self._thread.join(within_s)
        left = 0
        while batch := self._queue.take():
            left += len(batch)
        if left:
            self._dropped("unsent", left)

    def _line(self, record: logging.LogRecord) -> bytes:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        head = json.dumps({"@timestamp": at, "service": self._settings.service})
        return f"{head[:-1]}, {self._json.format(record)[1:]}".encode()

    def _run(self) -> None:
        while batch := self._next():
            try:
                self._ship(batch)
            except Exception:
                self._dropped("failed", len(batch))  # lines that nobody foresaw are not sent twice
                raise
        self._client.close()

    def _ship(self, batch: list[bytes]) -> None:
        pause = FIRST_PAUSE_S
        while batch:
            try:
                batch = self._send(batch)
                self._tell(failing=False)
                pause = FIRST_PAUSE_S
            except _Refused as refusal:
                self._tell(failing=True, why=str(refusal))
                if self._ended.wait(pause):
                    self._dropped("unsent", len(batch))
                    return
                pause = min(LONGEST_PAUSE_S, pause * 2)

    def _next(self) -> list[bytes]:
        """A batch as soon as there are lines; empty at the end."""
        self._queue.wait(self._ended.is_set)
        self._ended.wait(_GATHER_S)
        return self._queue.take()

    def _send(self, batch: list[bytes]) -> list[bytes]:
        """The lines that the index was too busy for. Raises _Refused."""
        endpoint = self._settings.endpoints[self._turn % len(self._settings.endpoints)]
        try:
            answer = self._client.post(
                f"{endpoint.url}/{self._settings.index}/_bulk",
                params={"filter_path": "errors,items.*.status"},
                content=b"".join(_CREATE + line + b"\n" for line in batch),
                headers={"content-type": "application/x-ndjson"},
                auth=_credentials(endpoint),
            )
        except (httpx.HTTPError, OSError) as error:
            self._turn += 1
            raise _Refused(type(error).__name__) from None
        if answer.status_code in _OURS:
            self._dropped("rejected", len(batch))
            return []
        if not answer.is_success:
            self._turn += 1
            raise _Refused(f"status {answer.status_code}")
        return self._judged(batch, _read(answer))

    def _judged(self, batch: list[bytes], answer: _Answer) -> list[bytes]:
        if not answer.errors:
            return []
        statuses = [each.status for item in answer.items for each in item.values()]
        if len(statuses) != len(batch):
            raise _Refused("the answer does not fit the lines")
        pairs = list(zip(batch, statuses, strict=True))
        again = [line for line, status in pairs if status == _BUSY or status >= _FAILED]
        refused = sum(status >= _REFUSED for status in statuses) - len(again)
        if refused:
            self._dropped("rejected", refused)
        if len(again) == len(batch):
            raise _Refused("every line failed")
        return again

    def _tell(self, *, failing: bool, why: str = "") -> None:
        """Once when it begins, once when it is over."""
        if failing and not self._failing:
            log.warning("log lines are not shipped: %s", why, extra={"event": "shipping_failed"})
        if self._failing and not failing:
            log.info("log lines are shipped again", extra={"event": "shipping_resumed"})
        self._failing = failing


def _credentials(endpoint: Endpoint) -> Any:
    if not endpoint.password:
        return httpx.USE_CLIENT_DEFAULT
    return httpx.BasicAuth(endpoint.username, endpoint.password)


class _Item(msgspec.Struct):
    status: int


class _Answer(msgspec.Struct):
    """`items`: for each line the action, and what became of it."""

    errors: bool
    items: list[dict[str, _Item]] = []


def _read(answer: httpx.Response) -> _Answer:
    try:
        return msgspec.json.decode(answer.content, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _Refused("the answer is none of a search index") from None
