"""Calls of an OpenAPI or Swagger document: valid ones and such as break one rule, from one seed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from tests.faults.contract_documents import (
    CallContract,
    Operation,
    Parameter,
    bracketed,
    plain,
)
from tests.faults.contract_values import Values, Wrong

BOUNDARY: Final = "partita"
UNKNOWN_TYPE: Final = "application/x-unknown"


@dataclass(frozen=True)
class Call:
    """A call; `pointer` says which part of it is wrong (`/query/limit`), "" where none is."""

    rule: str
    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    pointer: str = ""
    part: Any = None  # the value of the body or of the parameter that is wrong,
    schema: Any = field(default=None, compare=False)  # and what the document says of it

    @property
    def text(self) -> str:
        """The call in a line, which also names it."""
        headers = [f"{name}: {value}" for name, value in self.headers]
        return " | ".join([f"{self.method} {self.target}", *headers, *_shown(self.body)])


def _shown(body: bytes) -> list[str]:
    return [body.decode("utf-8", "backslashreplace")] if body else []


@dataclass
class Draft:
    """The parts of a call, as values; it is written when all are there."""

    operation: Operation
    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    cookie: dict[str, Any] = field(default_factory=dict)
    media_type: str = ""
    body: Any = None
    credentials: list[tuple[str, str, str]] = field(default_factory=list)  # place, name, text
    extra: tuple[tuple[str, str], ...] = ()

    def with_place(self, place: str, values: dict[str, Any]) -> Draft:
        """Return this call with other parameters of one place."""
        other = replace(self)
        setattr(other, place, values)
        return other

    def call(self, rule: str, pointer: str = "", part: Any = None, schema: Any = None) -> Call:
        query, cookies, headers = [], [], [*self.extra]
        for each in self.operation.parameters:
            values = getattr(self, each.place)
            if each.name not in values or each.place == "path":
                continue
            match each.place:
                case "query":
                    query += each.texts(values[each.name])
                case "cookie":
                    cookies += each.texts(values[each.name])
                case _:
                    headers.append((each.name, unquote(each.segment(values[each.name]))))
        for place, name, text in self.credentials:
            {"query": query, "cookie": cookies, "header": headers}[place].append((name, text))
        if cookies:
            headers.append(("Cookie", "; ".join(f"{name}={text}" for name, text in cookies)))
        body = b""
        if self.media_type and self.body is not None:
            kind, body = written_body(self.media_type, self.body, self.operation.deep_fields)
            headers.append(("Content-Type", kind))
        target = self._path() + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        return Call(rule, self.operation.method, target, tuple(_latin(headers)), body, pointer,
                    part, schema)  # fmt: skip

    def _path(self) -> str:
        known = {each.name: each for each in self.operation.place("path")}

        def text(found: re.Match[str]) -> str:
            name = found[1]
            return known[name].segment(self.path[name]) if name in self.path else "some-value"

        return re.sub(r"\{([^{}]*)\}", text, self.operation.path)


def _latin(headers: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, text in headers:
        yield name, text.encode("latin-1", "replace").decode("latin-1")


def written_body(
    media_type: str, value: Any, deep_fields: frozenset[str] = frozenset()
) -> tuple[str, bytes]:
    """Return the Content-Type and the bytes of a body."""
    if media_type == "application/x-www-form-urlencoded" and isinstance(value, dict):
        fields = [
            pair
            for name, each in value.items()
            for item in (each if isinstance(each, list) and name not in deep_fields else [each])
            for pair in (bracketed(name, item) if name in deep_fields else [(name, plain(item))])
        ]
        return media_type, urlencode(fields).encode()
    if media_type.startswith("multipart/") and isinstance(value, dict):
        disposition = "Content-Disposition: form-data; name"
        parts = [
            f'--{BOUNDARY}\r\n{disposition}="{name}"\r\n\r\n{plain(each)}\r\n'
            for name, each in value.items()
        ]
        whole = "".join(parts) + f"--{BOUNDARY}--\r\n"
        return f"{media_type}; boundary={BOUNDARY}", whole.encode()
    kind = "application/json" if media_type in ("*/*", "application/*") else media_type
    text = value if isinstance(value, str) and "json" not in kind else json.dumps(value)
    return kind, text.encode()


def is_written(media_type: str) -> bool:
    """Whether bodies of a media type are generated."""
    return "json" in media_type or media_type.startswith(
        ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain", "*/*")
    )


class Calls:
    """The calls of one operation: what suits it, and what breaks one rule."""

    def __init__(self, contract: CallContract, operation: Operation, seed: str) -> None:
        self.operation = operation
        key = f"{seed} {operation.method} {operation.path}"
        self.values = Values(contract.resolve, key)
        self.lean_values = Values(contract.resolve, key, is_lean=True)

    def valid(self, *, is_lean: bool = False) -> Draft:
        """Return a call with all parts (lean: those that must be there)."""
        values = self.lean_values if is_lean else self.values
        draft = Draft(self.operation)
        for each in self.operation.parameters:
            if each.is_required or each.place == "path" or not is_lean:
                getattr(draft, each.place)[each.name] = values.sample(each.schema)
        usual = [kind for kind in self.operation.bodies if is_written(kind)]
        if usual and (self.operation.is_body_required or not is_lean):
            draft.media_type = usual[0]
            draft.body = values.sample(self.operation.bodies[usual[0]])
        draft.credentials = credentials(self.operation)
        return draft

    def wrong(self, draft: Draft) -> Iterator[Call]:
        """Yield calls that each break one rule of a contract."""
        yield from self._wrong_parameters(draft)
        yield from self._wrong_body(draft)
        if self.operation.security and all(self.operation.security):
            yield replace(draft, credentials=[]).call("credentials", "/security")

    def _wrong_parameters(self, draft: Draft) -> Iterator[Call]:
        for each in self.operation.parameters:
            values = getattr(draft, each.place)
            if each.is_required and each.place != "path" and each.name in values:
                rest = {name: value for name, value in values.items() if name != each.name}
                yield draft.with_place(each.place, rest).call(
                    "required parameter", f"/{each.place}/{each.name}"
                )
            if each.name not in values:
                continue
            for wrong in self.values.wrong(each.schema, values[each.name]):
                if is_text_of_another_kind(each, wrong.rule, wrong.value, values[each.name]):
                    changed = values | {each.name: wrong.value}
                    yield draft.with_place(each.place, changed).call(
                        f"{wrong.rule} in {each.place}",
                        f"/{each.place}/{each.name}{wrong.pointer}",
                        wrong.value,
                        each.schema,
                    )

    def _wrong_body(self, draft: Draft) -> Iterator[Call]:
        if not draft.media_type:
            return
        if self.operation.is_body_required:
            yield replace(draft, body=None).call("required body", "/body")
        if not any("*" in kind for kind in self.operation.bodies):
            yield replace(draft, media_type=UNKNOWN_TYPE).call("content type", "/body")
        kind = "body" if "json" in draft.media_type else "form"
        if draft.media_type == "text/plain":
            return
        schema = self.operation.bodies[draft.media_type]
        for wrong in self.values.wrong(schema, draft.body):
            if kind == "form" and not _can_be_written(wrong):
                continue
            changed = replace(draft, body=wrong.value)
            pointer = f"/body{wrong.pointer}"
            yield changed.call(f"{wrong.rule} in {kind}", pointer, wrong.value, schema)


def _can_be_written(wrong: Wrong) -> bool:
    """Whether a form that has this value is wrong, too."""
    if not wrong.pointer or isinstance(wrong.value, list | str):
        return False
    if wrong.rule == "type":
        return not isinstance(_at(wrong), dict | list)
    return wrong.rule != "required" or _at(wrong, above=1) != {}  # which is written as nothing


def _at(wrong: Wrong, *, above: int = 0) -> Any:
    """Return what stands at the place of a wrong value (or above it), None where nothing is."""
    value = wrong.value
    parts = wrong.pointer.split("/")[1:]
    for part in parts[: len(parts) - above]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(key) if isinstance(value, list) else key]
        except (KeyError, TypeError, ValueError, IndexError):
            return None
    return value


def is_text_of_another_kind(parameter: Parameter, rule: str, wrong: Any, value: Any) -> bool:
    """Whether a wrong value is still wrong, once it is a text in a path, a query or a header."""
    if parameter.is_json:
        return True
    if isinstance(wrong, dict) != isinstance(value, dict) or wrong in ("", [], {}):
        return False  # written like another value, or like none
    parts = [*wrong.values()] if isinstance(wrong, dict) else wrong
    if isinstance(parts, list) and any(isinstance(each, dict | list) for each in parts):
        return False
    is_single = not isinstance(wrong, list)  # a single text is a list of one
    return not (is_single and (isinstance(value, list) or rule == "uniqueItems"))


def credentials(operation: Operation) -> list[tuple[str, str, str]]:
    """Return what the first alternative of an operation's security asks for."""
    found = []
    for each in operation.security[0] if operation.security else ():
        match each["type"], each.get("scheme", "").lower():
            case "apiKey", _:
                found.append((each["in"], each["name"], "key"))
            case ("basic", _) | ("http", "basic"):
                found.append(("header", "Authorization", "Basic YWRhOnNlY3JldA=="))
            case ("http", "bearer") | ("oauth2" | "openIdConnect", _):
                found.append(("header", "Authorization", "Bearer token"))
            case _:
                pass
    return found
