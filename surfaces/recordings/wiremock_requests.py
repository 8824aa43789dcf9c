"""Requests of WireMock's mappings as routes and conditions of examples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final
from urllib.parse import parse_qsl

from surfaces.contract_examples.request_examples import leaves
from surfaces.recordings.calls import list_at, text_at
from surfaces.recordings.mock_files import Document, condition
from surfaces.recordings.secrets import is_secret_name
from surfaces.recordings.stubs import StubUnsupported, mapping_at, parse_json

Say = Callable[[str], None]
_URLS: Final = ("url", "urlPath", "urlPathTemplate", "urlPathPattern", "urlPattern")
_SOURCES: Final = {"pathParameters": "path", "queryParameters": "query", "cookies": "cookie",
                   "headers": "header", "formParameters": "body"}  # fmt: skip
_CREDENTIALS: Final = ("basicAuthCredentials", "basicAuth")
_IGNORED: Final = ("host", "port", "scheme", "clientIp")
_KNOWN: Final = {*_URLS, *_SOURCES, *_CREDENTIALS, *_IGNORED, "method", "bodyPatterns"}
_SPECIAL: Final = frozenset("\\^$.|?*+()[]{}")
_SIMPLE_FILTER: Final = re.compile(r"\$\[\?\(\s*@\.([\w.]+)\s*==\s*'([^']*)'\s*\)\]")
_PLACEHOLDER: Final = "${json-unit."
_IS_THERE: Final[Document] = {"absent": False}


def route_of_request(request: Mapping[str, Any]) -> tuple[str, list[Document]]:
    """Return the template of the path, and the conditions of the URL; raise StubUnsupported."""
    given = [name for name in _URLS if isinstance(request.get(name), str)]
    if len(given) != 1:
        raise StubUnsupported("it answers every path" if not given else "it has two URLs")
    kind, url = given[0], request[given[0]]
    if kind == "urlPathTemplate":
        return url, []
    if kind in ("url", "urlPath"):
        path, _, query = url.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)[:50]
        when = [condition("query", name, value) for name, value in pairs]
        return path.replace("{", "%7B").replace("}", "%7D"), when
    return _route_of_pattern(url)


def conditions_of_request(request: Mapping[str, Any], say: Say) -> list[Document]:
    """Return the conditions beside the URL; raise StubUnsupported for what none can say."""
    for key in request.keys() - _KNOWN:
        raise StubUnsupported(f"request.{key}")
    for key in _IGNORED:
        if key in request:
            say(f"request.{key} is left out")
    fields = (_of_fields(mapping_at(request, key), _SOURCES[key], say) for key in _SOURCES)
    bodies = (
        _of_body(each if isinstance(each, dict) else {}, say)
        for each in list_at(request, "bodyPatterns")
    )
    found = list(chain(*fields, *bodies))
    if any(key in request for key in _CREDENTIALS):
        say("basicAuthCredentials are not kept; any are taken")
        found.append({"from": "header", "param": "Authorization", **_IS_THERE})
    return found


def _of_fields(fields: Mapping[str, Any], source: str, say: Say) -> Iterator[Document]:
    for name, matcher in fields.items():
        target: Document = {"from": source, "param": name}
        is_absence = isinstance(matcher, dict) and matcher.get("absent") is True
        if source == "header" and is_secret_name(name) and not is_absence:
            say(f"the value of the header {name} is not kept; any is taken")
            yield {**target, **_IS_THERE}
        else:
            yield from _conditions_of(target, matcher, name)


def _of_body(pattern: Mapping[str, Any], say: Say) -> Iterator[Document]:
    if "equalToJson" in pattern:
        wanted = pattern["equalToJson"]
        wanted = parse_json(wanted) if isinstance(wanted, str) else wanted
        if not isinstance(wanted, dict | list):
            raise StubUnsupported("equalToJson of no object or array")
        if not pattern.get("ignoreExtraElements"):
            say("equalToJson: a body with more members matches, too")
        yield from _of_json(wanted)
    elif "matchesJsonPath" in pattern:
        yield from _of_path(pattern["matchesJsonPath"], "jsonPath")
    elif "matchesXPath" in pattern:
        yield from _of_path(pattern["matchesXPath"], "xpath")
    else:  # of the whole body, which JSONPath calls $
        yield from _conditions_of({"from": "body", "jsonPath": "$"}, pattern, "bodyPatterns")


def _route_of_pattern(pattern: str) -> tuple[str, list[Document]]:
    """Return the template of a regular expression, a parameter for each segment that is one."""
    text = pattern.removeprefix("^").removesuffix("$")
    path, mark, query = text.partition(r"\?")
    when: list[Document] = []
    made: list[str] = []
    for number, segment in enumerate(_segments(path)):
        fixed = re.sub(r"\\([^A-Za-z0-9])", r"\1", segment)
        if not _SPECIAL & set(re.sub(r"\\[^A-Za-z0-9]", "", segment)):
            made.append(fixed)
            continue
        made.append(f"{{p{number}}}")
        if segment.strip("()") not in (".*", ".+", "[^/]+", "[^/]*"):
            when.append(condition("path", f"p{number}", f"^(?:{segment})$", "matches"))
    if not path.startswith("/") or made == ["{p1}"] or path.endswith("/.*"):
        raise StubUnsupported(f"the URL pattern {pattern[:80]} is for paths of any length")
    for part in query.split("&") if mark else ():
        name, _, value = part.partition("=")
        if not re.fullmatch(r"[\w-]+", name):
            raise StubUnsupported(
                f"the URL pattern {pattern[:80]} has a query that is not a name=value"
            )
        when.append(
            {"from": "query", "param": name, **_IS_THERE} if value in (".*", ".+")
            else condition("query", name, f"^(?:{value})$", "matches")
        )  # fmt: skip
    return "/" + "/".join(made), when


def _segments(path: str) -> list[str]:
    """Return what stands between the slashes that are in no group or class."""
    made, depth, escaped = [""], 0, False
    for letter in path.removeprefix("/"):
        if not escaped and letter in "([":
            depth += 1
        elif not escaped and letter in ")]":
            depth -= 1
        if letter == "/" and depth <= 0:
            made.append("")
        else:
            made[-1] += letter
        escaped = letter == "\\" and not escaped
    if depth:
        raise StubUnsupported(f"the URL pattern {path[:80]} is none")
    return made


def _conditions_of(target: Document, matcher: Any, name: str) -> Iterator[Document]:
    """Yield the conditions of a matcher; raise StubUnsupported."""
    if not isinstance(matcher, dict):
        raise StubUnsupported(f"{name}: a matcher that is not an object")
    if "and" in matcher:
        for each in list_at(matcher, "and"):
            yield from _conditions_of(target, each, name)
        return
    if "or" in matcher:
        listed = [list(_conditions_of(target, each, name)) for each in list_at(matcher, "or")]
        yield {"anyOf": listed}
        return
    if "not" in matcher:
        (inner,) = _conditions_of(target, matcher["not"], name)
        if "not" in inner or "anyOf" in inner:
            raise StubUnsupported(f"{name}: not of not")
        yield {**target, "not": {key: each for key, each in inner.items() if key not in target}}
        return
    yield {**target, **_operator(matcher, name)}


def _operator(matcher: Mapping[str, Any], name: str) -> Document:
    keys = matcher.keys() - {"caseInsensitive"}
    key = next(iter(keys), "")
    value = matcher.get(key)
    if len(keys) != 1 or not isinstance(value, str | bool | int | float):
        raise StubUnsupported(f"{name}: {', '.join(sorted(keys))[:80] or 'no matcher'}")
    ignores_case = matcher.get("caseInsensitive") is True
    if key == "equalTo" and ignores_case:
        return {"matches": f"(?i)^{re.escape(str(value))}$"}
    simple: dict[str, Document] = {
        "equalTo": {"value": value},
        "contains": {"contains": value},
        "doesNotContain": {"not": {"contains": value}},
        "matches": {"matches": f"^(?:{value})$"},
        "doesNotMatch": {"not": {"matches": f"^(?:{value})$"}},
        "absent": {"absent": bool(value)},
    }
    if key not in simple:
        raise StubUnsupported(f"{name}: {key[:60]}")
    return simple[key]


def _of_json(wanted: Mapping[str, Any] | list[Any]) -> Iterator[Document]:
    if isinstance(wanted, list):
        yield {"from": "body", "jsonPath": "$", "value": _compact(wanted)}
        return
    for param, value in leaves(wanted):
        if not value.startswith(_PLACEHOLDER):
            yield condition("body", param, value)
    for name, each in wanted.items():
        if isinstance(each, list) and re.fullmatch(r"[\w-]+", name):
            yield condition("body", name, _compact(each))


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _of_path(wanted: Any, syntax: str) -> Iterator[Document]:
    if isinstance(wanted, str):
        if found := _SIMPLE_FILTER.fullmatch(wanted):  # Jayway tests an object itself
            yield condition("body", found[1], found[2])
        else:
            yield {"from": "body", syntax: wanted, **_IS_THERE}
        return
    expression = text_at(wanted, "expression")
    if not expression or not isinstance(wanted, dict):
        raise StubUnsupported(f"{syntax} without an expression")
    rest = {key: each for key, each in wanted.items() if key != "expression"}
    yield from _conditions_of({"from": "body", syntax: expression}, rest, syntax)
