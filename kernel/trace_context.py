"""Places in a trace, as W3C Trace Context writes them: `00-<trace id>-<span id>-<flags>`.

Pure text and arithmetic: whoever only passes a trace on needs no OpenTelemetry.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Final

_FORM: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """A span: ids in lower-case hex; unsampled traces are passed on, but not exported."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"

    def child(self, *names: object) -> TraceContext:
        """The span below this one that `names` tell apart: equal names, equal span."""
        key = "/".join((self.span_id, *map(str, names))).encode()
        span_id = hashlib.blake2b(key, digest_size=8).hexdigest()
        return TraceContext(trace_id=self.trace_id, span_id=span_id, sampled=self.sampled)


def parse_traceparent(text: str) -> TraceContext | None:
    """None for what is no traceparent of version 00: the standard has it ignored."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    trace_id, span_id, flags = found.groups()
    return TraceContext(trace_id=trace_id, span_id=span_id, sampled=bool(int(flags, 16) & 1))


def new_span(*, below: TraceContext | None = None) -> TraceContext:
    """A span with an id of its own in the trace of `below`, or the root of a new trace."""
    span_id = secrets.token_hex(8)
    if below is None:
        return TraceContext(trace_id=secrets.token_hex(16), span_id=span_id)
    return TraceContext(trace_id=below.trace_id, span_id=span_id, sampled=below.sampled)
