"""The form that calls a mock, filled in from its examples."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

_PARAMETER: Final = re.compile(r"\{([^{}/]+)\}")
_STEP: Final = re.compile(r"[^.\[\]]+|\[\d+\]")
_MAX_ITEMS: Final = 20
_WITHOUT_BODY: Final = ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is sent for an example; `name` is empty for a call without one."""

    name: str = ""
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallForm:
    """`address` is the path on this site, with each of `params` in braces."""

    method: str
    address: str
    params: tuple[str, ...]
    takes_body: bool
    samples: tuple[Sample, ...]

    @property
    def first(self) -> Sample:
        return self.samples[0]

    @property
    def samples_json(self) -> str:
        return json.dumps([asdict(sample) for sample in self.samples])


def call_form(operation: Mapping[str, Any]) -> CallForm:
    """Return the form of an operation as on the wire (reference: control-plane 9)."""
    url = operation["mockUrl"]
    address = urlsplit(url).path
    address = address[max(address.find("/mocks/"), 0) :]  # MOCK_BASE_URL may have a path
    method = operation["method"] if operation["mockMetadata"]["adapter"] == "rest" else "POST"
    params = tuple(dict.fromkeys(_PARAMETER.findall(address)))
    command = _of_command(operation["curlCommand"], url, params)
    blank = _blank(operation["mockMetadata"]["parameterConstraints"], command)
    exchanges = operation["exchanges"]
    decided = {
        (each["from"], each["param"]) for exchange in exchanges[:1] for each in exchange["when"]
    }
    always = Sample(
        path=command.path,
        query={
            name: "" if ("query", name) in decided else value for name, value in blank.query.items()
        },
        headers=blank.headers,
        body=command.body,
    )
    return CallForm(
        method=method,
        address=address,
        params=params,
        takes_body=method not in _WITHOUT_BODY,
        samples=tuple(_sample(each, always) for each in exchanges) or (blank,),
    )


def _of_command(command: str, url: str, params: Sequence[str]) -> Sample:
    """Return what the operation's command sends: it has the examples of its API."""
    words = iter(shlex.split(command))
    target, headers, body = "", dict[str, str](), ""
    for word in words:
        if word == "-H":
            name, _, value = next(words, "").partition(":")
            headers[name.rstrip(";")] = value.strip()
        elif word == "--data-raw":
            body = next(words, "")
        elif "://" in word and not target:
            target = word
    path, _, query = target.partition("?")
    pattern = _PARAMETER.sub("([^/]*)", re.escape(url).replace(r"\{", "{").replace(r"\}", "}"))
    found = re.fullmatch(pattern, path)
    return Sample(
        path=dict(zip(params, map(unquote, found.groups()), strict=False)) if found else {},
        query=dict(parse_qsl(query, keep_blank_values=True)),
        headers=headers,
        body=_indent(body),
    )


def _blank(constraints: Sequence[Mapping[str, Any]], command: Sample) -> Sample:
    """Return the command's call, with an empty place for each constraint that it leaves out."""

    def names_from(source: str) -> dict[str, str]:
        return {each["name"]: "" for each in constraints if each["source"] == source}

    return Sample(
        path=command.path,
        query={**names_from("query"), **command.query},
        headers={**names_from("header"), **command.headers},
        body=command.body,
    )


def _sample(exchange: Mapping[str, Any], always: Sample) -> Sample:
    wanted: dict[str, dict[str, str]] = {}
    for condition in exchange["when"]:
        wanted.setdefault(condition["from"], {})[condition["param"]] = condition["value"]
    body = exchange.get("requestBody") or _body_of(wanted.get("body", {})) or always.body
    return Sample(
        name=exchange["name"],
        path={**always.path, **wanted.get("path", {})},
        query={**always.query, **wanted.get("query", {})},
        headers=_merge_headers(
            always.headers, exchange["requestHeaders"], wanted.get("header", {})
        ),
        body=_indent(body),
    )


def _merge_headers(*headers: Mapping[str, str]) -> dict[str, str]:
    """Return the last value of each name, whose case does not count."""
    merged: dict[str, tuple[str, str]] = {}
    for name, value in (pair for each in headers for pair in each.items()):
        merged[name.lower()] = (name, value)
    return dict(merged.values())


def _indent(body: str) -> str:
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return body


def _body_of(conditions: Mapping[str, str]) -> str:
    """Return the smallest JSON that has the wanted value at each path."""
    document: dict[str, Any] = {}
    for path, value in conditions.items():
        _put(document, _STEP.findall(path), _scalar(value))
    return json.dumps(document) if document else ""


def _put(document: Any, steps: Sequence[str], value: object) -> None:
    """Set the value at a path such as `items[0].id`; leave out what contradicts an earlier one."""
    place = document
    for step, following in _pairs(steps):
        made: Any = value if following is None else [] if following.startswith("[") else {}
        if step.startswith("[") and isinstance(place, list) and int(step[1:-1]) < _MAX_ITEMS:
            index = int(step[1:-1])
            place.extend({} for _ in range(len(place), index + 1))
        elif isinstance(place, dict) and not step.startswith("["):
            place.setdefault(step, made)
        else:
            return
        key = int(step[1:-1]) if step.startswith("[") else step
        if following is None or not isinstance(place[key], type(made)):
            place[key] = made
        place = place[key]


def _pairs(steps: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    yield from zip(steps, [*steps[1:], None], strict=True)


def _scalar(text: str) -> object:
    """Return the JSON number or boolean of this text: conditions compare texts."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text
