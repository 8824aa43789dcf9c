"""`Prefer` and its query forms: which answer a caller wants to see (RFC 7240).

`Prefer: code=404`, `example=cat` and `dynamic=true`, or `?__code=404&__example=cat&__dynamic=true`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mocks.negotiation.header_lists import split_list, split_parameter

PREFER: Final = "prefer"  # the header
QUERY_MARK: Final = "__"  # what a query with one of the forms has
_MAX_VALUE: Final = 200  # characters
_NAMES: Final = ("code", "example", "dynamic")
_TRUE: Final = ("", "true", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What a caller asks for; "" and False for nothing.

    `named` are the preferences that the header names.
    """

    code: str = ""
    example: str = ""
    dynamic: bool = False
    named: frozenset[str] = frozenset()

    def applied_text(self, *, is_fresh: bool) -> str:
        """Return the value of `Preference-Applied`; `is_fresh`: the answer was made anew."""
        shown = {"code": self.code, "example": self.example, "dynamic": "true" if is_fresh else ""}
        found = {name: value for name, value in shown.items() if value and name in self.named}
        return ", ".join(f"{name}={_as_value(value)}" for name, value in found.items())


def _as_value(value: str) -> str:
    is_token = value.replace("-", "").replace("_", "").replace(".", "").isalnum()
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return value if is_token and value.isascii() else f'"{escaped}"'


def read_preferences(header: str, query: Mapping[str, str]) -> Preferences | None:
    """Return what the header says, otherwise the query; None if neither asks for anything.

    Of a preference that is named twice, the first one counts.
    """
    found: dict[str, str] = {}
    for each in split_list(header, ",;") if header else ():
        name, value = split_parameter(each)
        if name in _NAMES:
            found.setdefault(name, value[:_MAX_VALUE])
    named = frozenset(found)
    for name in _NAMES:
        if (given := query.get(QUERY_MARK + name)) is not None:
            found.setdefault(name, given[:_MAX_VALUE])
    dynamic = found.get("dynamic", "false").lower() in _TRUE
    made = Preferences(
        code=found.get("code", ""), example=found.get("example", ""), dynamic=dynamic, named=named
    )
    return made if made.code or made.example or made.dynamic else None
