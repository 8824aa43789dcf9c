"""Requests against constraints and request schemas (reference: control-plane 18.2, 6.3).

Errors are those of problem documents, without the values that were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import re2

from kernel.errors import FieldErrorDocument, PlatformError
from mocks.engine.responses import HEADER_NAME, header_value
from mocks.model.calls import MockRequest
from mocks.templates.coercions import FAILED, coerce
from readers.json import escape_pointer
from surfaces.operation_rules import ParameterConstraint
from surfaces.template_paths import parse_path
from surfaces.value_nodes import ValueNode

MAX_MATCHED: Final = 8 * 2**10  # bytes of a value that patterns see
MAX_ERRORS: Final = 50
MAX_VALUES: Final = 100_000  # of a body that are checked
_NOT_FORWARDED: Final = frozenset(
    {"connection", "content-length", "content-type", "keep-alive", "te", "trailer", "upgrade"}
    | {"transfer-encoding", "proxy-authenticate", "proxy-authorization", "set-cookie"}
)
_QUIET: Final = re2.Options()
_QUIET.log_errors = False


class PatternInvalid(PlatformError):
    """A pattern that RE2 does not take, or not within its memory."""

    code = "mock_metadata_invalid"


Read = Callable[[MockRequest], str | None]
Error = FieldErrorDocument


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return what says whether a text has a match of an RE2 pattern, in its first 8 KiB.

    Raise PatternInvalid.
    """
    try:
        compiled = re2.compile(pattern.encode(errors="replace"), options=_QUIET)
    except re2.error:
        raise PatternInvalid(f'"{pattern[:80]}" is not a regular expression (RE2)') from None
    search = compiled.search
    return lambda text: search(text.encode(errors="replace")[:MAX_MATCHED]) is not None


def reader(source: str, param: str) -> Read:
    """Return what reads a parameter of a request as text, None where it has none."""
    if source in _READERS:
        return _READERS[source](param.lower() if source == "header" else param)
    steps = parse_path(param)
    if steps is None:
        return lambda _request: None
    return lambda request: request.body_text(steps)


_READERS: Final[Mapping[str, Callable[[str], Read]]] = {
    "path": lambda name: lambda request: request.params.get(name),
    "query": lambda name: lambda request: request.query.get(name),
    "header": lambda name: lambda request: request.headers.get(name),
    "cookie": lambda name: lambda request: cookie_value(request.headers.get("cookie", ""), name),
}


def cookie_value(header: str, name: str) -> str | None:
    """Return the value of the first cookie of a name, without its quotes."""
    for part in header.split(";"):
        found, is_pair, value = part.partition("=")
        if is_pair and found.strip() == name:
            return value.strip().removeprefix('"').removesuffix('"')
    return None


class Constraint:
    """A parameter constraint, compiled."""

    __slots__ = ("forward_as", "matches", "pointer", "read", "rule")

    def __init__(self, rule: ParameterConstraint) -> None:
        self.rule = rule
        self.read = reader(rule.source, rule.name)
        self.matches = matcher(rule.pattern) if rule.pattern else None
        steps = parse_path(rule.name) if rule.source == "body" else None
        self.pointer = "".join(f"/{step}" for step in steps) if steps else rule.name
        forwards = (
            rule.forward
            and HEADER_NAME.fullmatch(rule.name) is not None
            and rule.name.lower() not in _NOT_FORWARDED
        )
        self.forward_as = rule.name if forwards else ""

    def error(self, value: str | None) -> Error | None:
        """Return why a value is refused, None if it is not."""
        if value is None:
            if not self.rule.required:
                return None
            detail = f"the {self.rule.source} parameter {self.rule.name} is required"
            return {"pointer": self.pointer, "code": "required", "detail": detail}
        if self.matches is None or self.matches(value):
            return None
        detail = f"the {self.rule.source} parameter {self.rule.name} must match {self.rule.pattern}"
        return {"pointer": self.pointer, "code": "invalid_value", "detail": detail}


def check_constraints(
    constraints: Sequence[Constraint], request: MockRequest
) -> tuple[list[Error], list[tuple[str, str]]]:
    """Return what is wrong with the parameters, and the headers to copy to the response."""
    errors: list[Error] = []
    forwarded: list[tuple[str, str]] = []
    for constraint in constraints:
        value = constraint.read(request)
        if error := constraint.error(value):
            errors.append(error)
        elif constraint.forward_as and value is not None:
            forwarded.append((constraint.forward_as, header_value(value)))
    return errors, forwarded


@dataclass(slots=True)
class _Findings:
    errors: list[Error]
    values: int = MAX_VALUES

    @property
    def is_full(self) -> bool:
        return self.values <= 0 or len(self.errors) >= MAX_ERRORS

    def add(self, pointer: str, code: str, detail: str) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append({"pointer": pointer, "code": code, "detail": detail})


class RequestSchema:
    """The request of a schema example, compiled to checks."""

    __slots__ = ("_body", "_headers")

    def __init__(self, headers: ValueNode | None, body: ValueNode | None) -> None:
        self._headers = _header_checks(headers) if headers else ()
        self._body = (
            (_NodeCheck(body, as_text=False), _NodeCheck(body, as_text=True)) if body else None
        )

    def errors(self, request: MockRequest) -> list[Error]:
        """Return what is wrong with headers and body; pointers into the body begin with `/`."""
        found = _Findings([])
        for name, is_required, check in self._headers:
            value = request.headers.get(name)
            if value is not None:
                check(value, name, found)
            elif is_required:
                found.add(name, "required", f"the header {name} is required")
        if self._body is not None:
            if request.raw_body:
                self._body[request.is_form](request.body, "", found)
            else:
                found.add("", "required", "a body is required")
            if found.values <= 0:
                found.add("", "invalid_value", f"the body has more than {MAX_VALUES:,} values")
        return found.errors


def _header_checks(node: ValueNode) -> tuple[tuple[str, bool, _NodeCheck], ...]:
    required = {name.lower() for name in node.required}
    nodes = {name.lower(): each for name, each in node.properties.items()}
    nodes |= {name: ValueNode() for name in required - nodes.keys()}
    return tuple(
        (name, name in required, _NodeCheck(each, as_text=True)) for name, each in nodes.items()
    )


class _NodeCheck:
    """Checks values against a node; `as_text`: scalars come as texts."""

    __slots__ = ("_accepts", "_as_text", "_items", "_kind", "_properties", "_required", "_rules")

    def __init__(self, node: ValueNode, *, as_text: bool) -> None:
        self._kind = node.type
        self._as_text = as_text and node.type not in ("", "string")
        self._accepts = _KINDS[node.type]
        self._rules = _rules(node)
        self._items = _NodeCheck(node.items, as_text=as_text) if node.items else None
        self._required = sorted(set(node.required))
        self._properties = {
            name: _NodeCheck(each, as_text=as_text) for name, each in node.properties.items()
        }

    def __call__(self, value: Any, pointer: str, found: _Findings) -> None:
        found.values -= 1
        if self._as_text:
            value = _of_text(value, self._kind)
        if not self._accepts(value):
            found.add(pointer, "wrong_type", f"must be of type {self._kind}")
            return
        for holds, detail in self._rules:
            if not holds(value):
                found.add(pointer, "invalid_value", detail)
        if isinstance(value, dict):
            self._check_members(value, pointer, found)
        elif isinstance(value, list) and self._items is not None:
            self._check_items(value, pointer, found, self._items)

    @staticmethod
    def _check_items(value: list[Any], pointer: str, found: _Findings, check: _NodeCheck) -> None:
        for index, each in enumerate(value):
            if found.is_full:
                return
            check(each, f"{pointer}/{index}", found)

    def _check_members(self, value: Mapping[str, Any], pointer: str, found: _Findings) -> None:
        for name in self._required:
            if name not in value:
                found.add(f"{pointer}/{escape_pointer(name)}", "required", f"{name} is required")
        for name, check in self._properties.items():
            if found.is_full:
                return
            if name in value:
                check(value[name], f"{pointer}/{escape_pointer(name)}", found)


def _of_text(value: Any, kind: str) -> Any:
    coerced = coerce(value, kind) if isinstance(value, str) else value
    return value if coerced is FAILED else coerced


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "": lambda _value: True,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: (
        _is_number(value) and float(value).is_integer()
        if isinstance(value, float)
        else _is_number(value)
    ),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _rules(node: ValueNode) -> list[tuple[Callable[[Any], bool], str]]:
    """Return the rules on single values, each with what is wrong where it does not hold."""
    rules: list[tuple[Callable[[Any], bool], str]] = []
    if node.const:
        wanted = node.const[0]
        rules.append((lambda value: _same(value, wanted), "must be the constant of the schema"))
    if node.enum:
        allowed = node.enum
        detail = "must be one of the values of the schema"
        rules.append((lambda value: any(_same(value, each) for each in allowed), detail))
    if node.pattern:
        matches = matcher(node.pattern)
        detail = f"must match {node.pattern}"
        rules.append((lambda value: not isinstance(value, str) or matches(value), detail))
    rules += _bounds(node)
    return rules


def _bounds(node: ValueNode) -> list[tuple[Callable[[Any], bool], str]]:
    rules: list[tuple[Callable[[Any], bool], str]] = []
    low, high, shortest, longest = node.minimum, node.maximum, node.min_length, node.max_length
    if low is not None:
        rules.append((lambda value: not _is_number(value) or value >= low, f"must be ≥ {low}"))
    if high is not None:
        rules.append((lambda value: not _is_number(value) or value <= high, f"must be ≤ {high}"))
    if shortest is not None:
        detail = f"must have at least {shortest} characters"
        rules.append((lambda value: not isinstance(value, str) or len(value) >= shortest, detail))
    if longest is not None:
        detail = f"must have at most {longest} characters"
        rules.append((lambda value: not isinstance(value, str) or len(value) <= longest, detail))
    return rules


def _same(value: Any, wanted: Any) -> bool:
    """Return whether two JSON values are equal; true is not 1."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return bool(value == wanted)
