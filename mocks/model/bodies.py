"""The bodies of requests, read as conditions and templates see them."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

_FORM: Final = "application/x-www-form-urlencoded"
_FORM_FIELDS: Final = 1_000
_json: Final = msgspec.json.Decoder()


def parse_body(body: bytes, content_type: str) -> Any:
    """Parse JSON, or a form to the first values; return other text as it is, "" when empty."""
    if not body:
        return ""
    if content_type.startswith(_FORM):
        try:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=_FORM_FIELDS)
        except ValueError:
            return body.decode(errors="replace")
        return {name: values[0] for name, values in fields.items()}
    try:
        return _json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return body.decode(errors="replace")
