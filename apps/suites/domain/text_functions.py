"""The text functions of `utils` in suite.star (reference: control-plane 7.5)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from apps.suites.domain import values
from apps.suites.domain.problems import TopologyProblem
from kernel.ids import slug

_COLUMN: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_.]*\Z")


def sanitize(value: object) -> str:
    return slug(values.text(value, "utils.sanitize: text"))


def quote_shell(value: object) -> str:
    """Put the text in POSIX single quotes."""
    escaped = values.text(value, "utils.quoted: text").replace("'", "'\\''")
    return f"'{escaped}'"


def quote_url(value: object) -> str:
    """Encode every reserved character in percent encoding, for a part of a URL."""
    return quote(values.text(value, "utils.url_quoted: text"), safe="")


def sql_value(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return _number(value, "utils.sql_value")
    if not isinstance(value, str):
        values.wrong_type("utils.sql_value: value", "None, a bool, a number or a string", value)
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def sql_predicate(where: object) -> str:
    """Return a string unchanged, a dict as `"k" = v AND …` with `IS NULL` and `IN (…)`."""
    if isinstance(where, str):
        return where
    if not isinstance(where, dict):
        values.wrong_type("utils.sql_predicate: where", "a string or a dict", where)
    return " AND ".join(_condition(column, value) for column, value in where.items())


def _condition(column: str, value: object) -> str:
    if not _COLUMN.match(column):
        values.invalid("utils.sql_predicate", f'"{column}" is not a column name')
    if value is None:
        return f'"{column}" IS NULL'
    if isinstance(value, list):
        return f'"{column}" IN ({", ".join(sql_value(item) for item in value)})'
    return f'"{column}" = {sql_value(value)}'


def js_value(value: object) -> str:
    """Return JSON with keys in the order of the dict."""
    return json.dumps(_jsonable(value), ensure_ascii=False, allow_nan=False)


def _jsonable(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    if isinstance(value, float):
        return float(_number(value, "utils.js_value"))
    if value is not None and not isinstance(value, str | int):
        values.wrong_type("utils.js_value: value", "a value that JSON can represent", value)
    return value


def _number(value: float, where: str) -> str:
    if not math.isfinite(value):
        raise TopologyProblem("invalid_value", f"{where}: must be a finite number")
    return repr(value)


FUNCTIONS: Final[dict[str, Callable[[object], str]]] = {
    "sanitize": sanitize,
    "quoted": quote_shell,
    "url_quoted": quote_url,
    "sql_value": sql_value,
    "sql_predicate": sql_predicate,
    "js_value": js_value,
}
