"""Credentials out of recorded calls: what was sent as one, wherever it occurs, becomes `***`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from kernel.redaction import MASK, Redactor
from surfaces.recordings.calls import Pairs, RecordedCall, json_value

MIN_SECRET: Final = 4  # characters; shorter values are masked only where they stand
NAME: Final = re.compile(
    r"authorization|cookie|secret|token|passw|pwd|api[-_]?key|signature|credential|session|\botp\b",
    re.IGNORECASE,
)
_SHAPES: Final = re.compile(
    r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # JSON web tokens
    r"|\b(?:Bearer|Basic)\s+[\w.~+/=-]{8,}"
    r"|\b(?:sk|pk|rk)_(?:live|test)_\w{8,}|\bgh[pousr]_\w{20,}|\bxox[abprs]-[\w-]{10,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*-----END [A-Z ]*PRIVATE KEY-----"
)
_COOKIE: Final = re.compile(r"[^;=,\s]+=\"?([^;\"]+)")


def without_secrets(calls: Iterable[RecordedCall]) -> list[RecordedCall]:
    """Return the calls without credentials; those in headers do not stay at all."""
    found = list(calls)
    values = {secret for call in found for secret in _secrets(call) if len(secret) >= MIN_SECRET}
    redactor = Redactor(sorted(values))
    return [_mask(call, redactor) for call in found]


def is_secret_name(name: str) -> bool:
    return NAME.search(name) is not None


def _secrets(call: RecordedCall) -> Iterator[str]:
    for name, value in (*call.request_headers, *call.response_headers):
        if "cookie" in name.lower():
            first = value.partition(";")[0] if name.lower() == "set-cookie" else value
            yield from (each.strip() for each in _COOKIE.findall(first))
        elif is_secret_name(name):
            yield value.strip()
            yield value.rpartition(" ")[2]
    yield from (value for name, value in (*call.query, *call.params) if is_secret_name(name))
    for body in (call.request_body, call.response_body):
        yield from _in_body(json_value(body))


def _in_body(value: Any, depth: int = 0) -> Iterator[str]:
    if depth > 64:  # noqa: PLR2004 - no body of an API is
        return
    if isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, str) and is_secret_name(name):
                yield each
            else:
                yield from _in_body(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _in_body(each, depth + 1)


def _mask(call: RecordedCall, redactor: Redactor) -> RecordedCall:
    def text(value: str) -> str:
        return _SHAPES.sub(MASK, redactor.mask(value))

    def body(value: str) -> str:
        return text(_SHORT.sub(lambda found: f"{found[1] or found[2]}{MASK}", value))

    def pairs(listed: Pairs) -> Pairs:
        return tuple(
            (name, MASK if is_secret_name(name) else text(value)) for name, value in listed
        )

    def headers(listed: Pairs) -> Pairs:
        return tuple((name, text(value)) for name, value in listed if not is_secret_name(name))

    return replace(
        call,
        name=text(call.name),
        path=text(call.path),
        template=text(call.template),
        params=pairs(call.params),
        query=pairs(call.query),
        request_headers=headers(call.request_headers),
        response_headers=headers(call.response_headers),
        request_body=body(call.request_body),
        response_body=body(call.response_body),
    )


# fields of forms and short values of JSON, which are no text to look for everywhere
_SHORT: Final = re.compile(
    r"((?:^|&)[^=&\s{\"]*(?:secret|token|passw|pwd|api_?key|otp)[^=&\s{\"]*=)[^&\s]+"
    r"|(\"[^\"]*(?:secret|token|passw|pwd|api_?key|otp)[^\"]*\"\s*:\s*\")[^\"]*",
    re.IGNORECASE,
)
