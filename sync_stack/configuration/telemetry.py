"""The exports of a process: spans over OTLP, and log lines to a search index."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import unquote, urlsplit

from kernel import telemetry
from kernel.background import BackgroundThread
from kernel.redaction import known_secrets
from kernel.telemetry import TelemetrySettings, parse_pairs
from sync_stack.configuration.conf import Environment, process_environment
from sync_stack.configuration.log_shipping import Dropped, Endpoint, LogShipper, ShippingSettings
from sync_stack.configuration.startup import StartRefused

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
    """OTEL_ENABLED, and the variables of OpenTelemetry itself."""
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
        line = "ES_ENDPOINTS: expected URLs such as https://user:password@host:9200, by commas"
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
