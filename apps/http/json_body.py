"""Request bodies: JSON and nothing else, bounded in size and depth (reference: control-plane 1)."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from kernel.errors import PlatformError

MAX_BODY_BYTES: Final = 10 * 2**20
MAX_NESTING: Final = 64
_FORBIDDEN = re.compile("[\x00\ud800-\udfff]")


class MalformedJson(PlatformError):
    code = "malformed_json"


class PayloadTooLarge(PlatformError):
    code = "payload_too_large"

    def __init__(self) -> None:
        super().__init__(f"the request body is larger than {MAX_BODY_BYTES} bytes")


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text in UTF-8.

    Raises MalformedJson for bad UTF-8 or JSON, numbers that JSON does not have, more than 64
    levels, and strings with NUL or a lone surrogate.
    """
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise MalformedJson(f"the body is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise MalformedJson(
            f"the body is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None
    except (RecursionError, ValueError):
        raise MalformedJson("the body nests too deep or holds a number out of range") from None
    _check_values(text, value)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedJson(f"the body is not JSON: {name} is not a JSON number")


def _check_values(text: str, value: Any) -> None:
    """Walks only when the text could hold what is refused: most bodies are checked by counting."""
    deep = text.count("[") + text.count("{") > MAX_NESTING
    escaped = "\\u" in text
    if not (deep or escaped or "e" in text or "E" in text):
        return
    layer = [value]
    for level in range(MAX_NESTING + 1):
        for entry in layer:
            _check_scalar(entry)
        if level == MAX_NESTING and any(isinstance(entry, list | dict) for entry in layer):
            raise MalformedJson(f"the body nests deeper than {MAX_NESTING} levels")
        layer = [child for entry in layer for child in _children(entry)]


def _check_scalar(entry: Any) -> None:
    if isinstance(entry, str) and _FORBIDDEN.search(entry):
        raise MalformedJson("a string in the body holds NUL or a lone surrogate")
    if isinstance(entry, float) and entry in (float("inf"), float("-inf")):
        raise MalformedJson("a number in the body is out of range")


def _children(entry: Any) -> list[Any]:
    if isinstance(entry, dict):
        return [*entry, *entry.values()]
    return entry if isinstance(entry, list) else []
