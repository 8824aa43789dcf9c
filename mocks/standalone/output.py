"""What `mock serve` prints: facts and calls on stdout, what happens later on stderr."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kernel.errors import FileWarning
from mocks.engine.documents import call_document, contract_words, requirement
from mocks.model.calls import JournalEntry
from mocks.standalone.served_files import Reading
from mocks.standalone.served_suite import ServedSuite

_SHOWN_WARNINGS: Final = 20
_SHOWN_ERRORS: Final = 5  # of a call
# With the other lines, a start takes a dozen of them, however large the suite is.
_SHOWN_SURFACES: Final = 4
_WARNINGS_AT_START: Final = 3
_LOGGED: Final = (
    "time", "method", "path", "surfaceId", "outcome", "status", "durationMs", "operationId",
    "matchedExample", "stateKey", "nearest", "contractErrors", "fault", "detail",
)  # fmt: skip
_CONTROL: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the command says once it serves; `grpc` and `https` are addresses or "".

    `trust` is the file of a certificate that was made here.
    """

    served: ServedSuite
    base_url: str
    grpc: str
    took_s: float
    https: str = ""
    trust: str = ""

    def document(self) -> dict[str, Any]:
        reading = self.served.reading
        surfaces = reading.content.surfaces
        document: dict[str, Any] = {
            "suiteId": self.served.files.suite_id,
            "url": self.base_url,
            "files": str(self.served.files.place),
            "surfaces": [
                {"id": each.surface_id, "url": each.mock_host, "operations": len(each.operations)}
                for each in surfaces
            ],
            "operations": reading.operations,
            "curl": self.first_curl(),
            "warnings": [each.as_dict() for each in reading.warnings],
            "startedInMs": round(self.took_s * 1000),
        }
        more = {"grpc": self.grpc, "https": self.https, "certificate": self.trust}
        return document | {name: text for name, text in more.items() if text}

    def first_curl(self) -> str:
        """Return the command of the first operation with an example, otherwise of the first."""
        surfaces = self.served.reading.content.surfaces
        operations = [each for surface in surfaces for each in surface.operations]
        chosen = next((each for each in operations if each.exchanges), operations[0])
        if not self.trust or self.base_url != self.https:
            return chosen.curl_command
        return chosen.curl_command.replace("curl ", f"curl --cacert {shlex.quote(self.trust)} ", 1)


class Output:
    """What the command prints on stdout."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def facts(self, facts: ServerFacts) -> None:
        served, reading = facts.served, facts.served.reading
        if self.as_json:
            self._line(json.dumps(facts.document(), ensure_ascii=False))
            return
        surfaces = reading.content.surfaces
        title = f"{reading.content.title} ({served.files.suite_id})"
        self._line(f"{title} on {facts.base_url}: {_plural(len(surfaces), 'surface')}")
        shown = surfaces[:_SHOWN_SURFACES]
        width = max(len(surface.surface_id) for surface in shown)
        for surface in shown:
            size = _plural(len(surface.operations), "operation")
            self._line(f"  {surface.surface_id:{width}}  {surface.mock_host}  {size}")
        if len(surfaces) > len(shown):
            self._line(f"  and {len(surfaces) - len(shown)} more: {facts.base_url}/ lists all")
        if facts.grpc:
            self._line(f"gRPC on {facts.grpc}, with reflection")
        if facts.https:
            also = "TLS" if facts.https == facts.base_url else f"also {facts.https}"
            told = f"{also}, clients must trust {facts.trust}" if facts.trust else also
            self._line(f"{told}; HTTP/2 where a client asks for it")
        self._line(f"try: {facts.first_curl()}")
        took = f"started in {facts.took_s * 1000:.0f} ms"
        self._line(f"{_count(reading)}; {took}, Ctrl-C ends it")
        _list(reading.warnings, at_most=_WARNINGS_AT_START, all_at=f"{facts.base_url}/")

    def call(self, entry: JournalEntry) -> None:
        self._line(
            json.dumps(_call(entry), ensure_ascii=False) if self.as_json else _describe(entry)
        )

    def _line(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # `… | head` has read enough; go on serving
            sys.stdout.write(f"{_CONTROL.sub('?', text)}\n")
            sys.stdout.flush()


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _count(reading: Reading) -> str:
    warnings = _plural(len(reading.warnings), "warning")
    return f"{_plural(reading.operations, 'operation')}, {warnings}"


def _call(entry: JournalEntry) -> dict[str, Any]:
    """Return what of a call stands in the log: without the request, and to the microsecond."""
    document: Mapping[str, Any] = call_document(entry)
    return {name: document[name] for name in _LOGGED if name in document} | {
        "time": entry.time.isoformat(timespec="milliseconds"),
        "durationMs": round(entry.duration_ms, 3),
    }


def _describe(entry: JournalEntry) -> str:
    where = entry.operation_id or entry.surface_id or "-"
    what = entry.matched_example or str(entry.outcome)
    state = f", state {entry.state_key}" if entry.state_key else ""
    fault = f", fault {entry.fault}" if entry.fault else ""
    fault += f", {entry.detail}" if entry.detail else ""
    nearest = f"; nearest: {_nearest(entry.nearest)}" if entry.nearest else ""
    errors = contract_words(entry.contract_errors, at_most=_SHOWN_ERRORS)
    broken = f"; breaks its contract: {errors}" if errors else ""
    return (
        f"{entry.time:%H:%M:%S} {entry.status} {entry.method} {entry.path} -> "
        f"{where}: {what}{state}{fault} ({entry.duration_ms:.1f} ms){nearest}{broken}"
    )


def _nearest(nearest: Mapping[str, Any]) -> str:
    """Return what an unmatched call was nearest to, and what differs."""
    if "example" not in nearest:
        return f"{nearest['method']} {nearest['path']} ({nearest['differs']} differs)"
    differences = [
        f"{requirement(each)}, "
        + (f"it is {each['actual']!r}" if "actual" in each else "it is missing")
        for each in nearest["conditions"]
    ]
    return f"{nearest['example']} ({'; '.join(differences)})"


def report_reload(reading: Reading) -> None:
    report(f"reloaded: {_count(reading)}")
    _list(reading.warnings)


def report_kept(what_stays: str, places: Sequence[FileWarning]) -> None:
    report(what_stays)
    _list(places)


def report_error(code: str, detail: str, places: Sequence[FileWarning]) -> None:
    report(f"error {code}: {detail}")
    _list(places)


def _list(
    places: Sequence[FileWarning], *, at_most: int = _SHOWN_WARNINGS, all_at: str = ""
) -> None:
    for each in places[:at_most]:
        at = each.place()
        report(f"  {at}: {each.detail}" if at else f"  {each.detail}")
    if len(places) > at_most:
        report(f"  and {len(places) - at_most} more" + (f": {all_at} lists all" if all_at else ""))


def report(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(f"{_CONTROL.sub('?', text)}\n")
        sys.stderr.flush()
