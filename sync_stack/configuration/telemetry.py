"""The exports of a process: spans over OTLP, and log lines to a search index by its `_bulk`.

Log lines go to stdout as well. They wait in a bounded queue for a thread that sends them; lines
that do not fit, or that the index refuses permanently, are dropped and counted.
"""

from __future__ import annotations

import json
import logging
import re
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import unquote, urlsplit

import httpx
import msgspec

from kernel import telemetry
from kernel.background import BackgroundThread
from kernel.background_writer import BackgroundWriter, QueueLimits
from kernel.redaction import known_secrets
from kernel.telemetry import TelemetrySettings, parse_pairs
from sync_stack.configuration.conf import Environment, process_environment
from sync_stack.configuration.logs import JsonLines
from sync_stack.configuration.metrics import dropped_lines
from sync_stack.configuration.startup import StartRefused

shipping_log: Final = logging.getLogger("partita.sync.shipping")
MAX_QUEUED_LINES: Final = 10_000
MAX_QUEUED_BYTES: Final = 64 * 2**20
MAX_BATCH_LINES: Final = 500
MAX_BATCH_BYTES: Final = 2**20
FIRST_SHIPPING_PAUSE_S: Final = 1.0
MAX_SHIPPING_PAUSE_S: Final = 30.0
_BATCH_GATHER_S: Final = 0.25
_BULK_TIMEOUT_S: Final = 5.0
_CREATE_ACTION: Final = b'{"create":{}}\n'  # the only action that data streams take
_BAD_BATCH_STATUSES: Final = frozenset({400, 413})
_REFUSED_STATUS: Final = 400
_BUSY_STATUS: Final = 429
_FAILED_STATUS: Final = 500
Dropped = Callable[[str, int], None]  # reason, lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A node of the index; with `password`, Basic credentials."""

    url: str
    username: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippingSettings:
    """`endpoints` are tried in turn; `service` is a field of each line."""

    endpoints: tuple[Endpoint, ...]
    index: str
    service: str


class _IndexUnavailable(Exception):
    """The index cannot take lines now; the message holds neither lines nor credentials."""


class LogShipper(logging.Handler):
    """A handler of the root logger that sends its lines in batches from another thread."""

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
        self._ended = threading.Event()
        self._failing = False
        self._attempt = 0
        self._client = httpx.Client(
            timeout=_BULK_TIMEOUT_S, verify=ssl.create_default_context(), trust_env=False
        )
        self._writer = BackgroundWriter(
            "shipping",
            self._ship,
            QueueLimits(
                items=MAX_QUEUED_LINES,
                bytes=MAX_QUEUED_BYTES,
                batch_items=MAX_BATCH_LINES,
                batch_bytes=MAX_BATCH_BYTES,
                gather_s=_BATCH_GATHER_S,
            ),
            size_of=len,
            at_end=self._client.close,
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line, unless shipping itself logs it: a failure would feed on itself."""
        if self._writer.is_current_thread() or self._ended.is_set():
            return
        try:
            at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
            head = json.dumps({"@timestamp": at, "service": self._settings.service})
            line = f"{head[:-1]}, {self._json.format(record)[1:]}".encode()
        except Exception:  # noqa: BLE001 - as every handler: a bad line must not fail its caller
            self.handleError(record)
            return
        if not self._writer.put(line):
            self._dropped("queue_full", 1)

    def stop(self, within_s: float) -> None:
        """Send the queued lines for at most `within_s`; drop the rest."""
        self._ended.set()
        if left := self._writer.close(within_s):
            self._dropped("unsent", left)

    def _ship(self, batch: list[bytes]) -> None:
        """Send a batch, again and again while the index is unavailable."""
        pause = FIRST_SHIPPING_PAUSE_S
        while batch:
            try:
                batch = self._send(batch)
                self._log_change(failing=False)
                pause = FIRST_SHIPPING_PAUSE_S
            except _IndexUnavailable as error:
                self._log_change(failing=True, reason=str(error))
                if self._ended.wait(pause):
                    self._dropped("unsent", len(batch))
                    return
                pause = min(MAX_SHIPPING_PAUSE_S, pause * 2)
            except Exception:
                self._dropped("failed", len(batch))  # after an unexpected error, sent no more
                raise

    def _send(self, batch: list[bytes]) -> list[bytes]:
        """Send the lines; return those to send again. Raises _IndexUnavailable."""
        endpoint = self._settings.endpoints[self._attempt % len(self._settings.endpoints)]
        try:
            response = self._client.post(
                f"{endpoint.url}/{self._settings.index}/_bulk",
                params={"filter_path": "errors,items.*.status"},
                content=b"".join(_CREATE_ACTION + line + b"\n" for line in batch),
                headers={"content-type": "application/x-ndjson"},
                auth=(
                    httpx.BasicAuth(endpoint.username, endpoint.password)
                    if endpoint.password
                    else httpx.USE_CLIENT_DEFAULT
                ),
            )
        except (httpx.HTTPError, OSError) as error:
            self._attempt += 1
            raise _IndexUnavailable(type(error).__name__) from None
        if response.status_code in _BAD_BATCH_STATUSES:
            self._dropped("rejected", len(batch))
            return []
        if not response.is_success:
            self._attempt += 1
            raise _IndexUnavailable(f"status {response.status_code}")
        try:
            result = msgspec.json.decode(response.content, type=_BulkResponse)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _IndexUnavailable("the answer is none of a search index") from None
        return self._lines_to_repeat(batch, result)

    def _lines_to_repeat(self, batch: list[bytes], result: _BulkResponse) -> list[bytes]:
        if not result.errors:
            return []
        statuses = [each.status for item in result.items for each in item.values()]
        if len(statuses) != len(batch):
            raise _IndexUnavailable("the answer does not fit the lines")
        pairs = list(zip(batch, statuses, strict=True))
        again = [
            line for line, status in pairs if status == _BUSY_STATUS or status >= _FAILED_STATUS
        ]
        refused = sum(status >= _REFUSED_STATUS for status in statuses) - len(again)
        if refused:
            self._dropped("rejected", refused)
        if len(again) == len(batch):
            raise _IndexUnavailable("every line failed")
        return again

    def _log_change(self, *, failing: bool, reason: str = "") -> None:
        """Log the beginning and the end of a failure once each."""
        if failing and not self._failing:
            shipping_log.warning(
                "log lines are not shipped: %s", reason, extra={"event": "shipping_failed"}
            )
        if self._failing and not failing:
            shipping_log.info("log lines are shipped again", extra={"event": "shipping_resumed"})
        self._failing = failing


class _BulkItem(msgspec.Struct):
    status: int


class _BulkResponse(msgspec.Struct):
    """`items` maps, for each line, the action to its result."""

    errors: bool
    items: list[dict[str, _BulkItem]] = []


STOP_S: Final = 2.0
_LOCAL: Final = {"grpc": "http://localhost:4317", "http/protobuf": "http://localhost:4318"}
_INDEX: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,254}")
_INDEX_WORDS: Final = "expected lower-case letters, digits, dots and dashes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """The exports of a process, both off by default."""

    telemetry: TelemetrySettings | None = None
    shipping: ShippingSettings | None = None


def read_export_settings(environment: Environment, *, service: str) -> ExportSettings:
    """Read the settings of a process; problems are added to the environment."""
    return ExportSettings(
        telemetry=_telemetry(environment, service),
        shipping=_shipping(environment, service),
    )


def start_telemetry(service: str, *, dropped: Dropped | None = None) -> ProcessTelemetry:
    """Start the exports that the environment configures. Raises StartRefused."""
    environment = Environment(process_environment())
    settings = read_export_settings(environment, service=service)
    if environment.problems:
        raise StartRefused(environment.problems)
    return ProcessTelemetry(settings, dropped=dropped)


def _telemetry(environment: Environment, service: str) -> TelemetrySettings | None:
    """Read OTEL_ENABLED and the variables of OpenTelemetry itself; None where it is off."""
    if not environment.flag("OTEL_ENABLED", default=False):
        return None
    prefix = "OTEL_EXPORTER_OTLP"
    protocol = environment.choice(f"{prefix}_PROTOCOL", "grpc", tuple(_LOCAL))
    headers = parse_pairs(environment.text(f"{prefix}_HEADERS"))
    known_secrets.add(*headers.values())
    return TelemetrySettings(
        endpoint=environment.text(f"{prefix}_ENDPOINT", _LOCAL[protocol]),
        protocol=protocol,
        service_name=environment.text("OTEL_SERVICE_NAME", f"partita-sync-{service}"),
        insecure=(
            environment.flag(f"{prefix}_INSECURE", default=False)
            if environment.is_set(f"{prefix}_INSECURE")
            else None
        ),
        headers=headers,
        resource=parse_pairs(environment.text("OTEL_RESOURCE_ATTRIBUTES")),
    )


def _shipping(environment: Environment, service: str) -> ShippingSettings | None:
    if not environment.flag("ELK_ENABLED", default=False):
        return None
    endpoints = [_endpoint(environment, url) for url in environment.words("ES_ENDPOINTS")]
    if not endpoints:
        environment.problems.append("ES_ENDPOINTS: required, because ELK_ENABLED is set")
    index = environment.text("ES_INDEX", "partita-sync")
    if not _INDEX.fullmatch(index):
        environment.wrong("ES_INDEX", _INDEX_WORDS)
    return ShippingSettings(endpoints=tuple(endpoints), index=index, service=service)


def _endpoint(environment: Environment, url: str) -> Endpoint:
    """Parse the URL of a node; the problem does not quote it, as it may hold a password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        line = "ES_ENDPOINTS: separate URLs by commas, as in https://user:password@host:9200"
        environment.problems.append(line)
    password = unquote(parts.password or "")
    known_secrets.add(password)
    place = f"[{host}]" if ":" in host else host
    where = f"{place}:{port}" if port else place
    return Endpoint(
        url=f"{parts.scheme}://{where}{parts.path.rstrip('/')}",
        username=unquote(parts.username or ""),
        password=password,
    )


class ProcessTelemetry:
    """The running exports of a process, made after its fork; `stop` flushes them."""

    def __init__(self, settings: ExportSettings, *, dropped: Dropped | None = None) -> None:
        self._traces = settings.telemetry is not None and telemetry.configure(settings.telemetry)
        self._shipper = _shipper(settings.shipping, dropped)
        if self._shipper is not None:
            logging.getLogger().addHandler(self._shipper)

    def stop(self, within_s: float = STOP_S) -> None:
        """Flush both exports, for at most `within_s` even if a collector hangs."""
        flush = BackgroundThread("traces-end", partial(self._shut_down_traces, within_s))
        flush.start()
        if self._shipper is not None:
            logging.getLogger().removeHandler(self._shipper)
            self._shipper.stop(within_s)
        flush.join(within_s)

    def _shut_down_traces(self, within_s: float) -> None:
        if self._traces:
            telemetry.shutdown(int(within_s * 1000))


def _shipper(settings: ShippingSettings | None, dropped: Dropped | None) -> LogShipper | None:
    if settings is None:
        return None
    return LogShipper(settings) if dropped is None else LogShipper(settings, dropped=dropped)
