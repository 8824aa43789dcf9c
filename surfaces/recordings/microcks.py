"""Examples and metadata of Microcks: documents of the kinds `APIExamples` and `APIMetadata`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from surfaces.contract_examples.request_examples import leaves
from surfaces.recordings.calls import list_at, text_at
from surfaces.recordings.mock_files import (
    MAX_CONDITIONS,
    Document,
    condition,
    literal,
    response_of,
)
from surfaces.recordings.stubs import (
    MAX_STUBS,
    Stub,
    Stubs,
    body_value,
    mapping_at,
    parse_json,
    translate,
)
from surfaces.schemas import as_text

EXAMPLES: Final = "APIExamples"
METADATA: Final = "APIMetadata"
_OPERATION: Final = re.compile(r"(GET|PUT|POST|DELETE|OPTIONS|HEAD|PATCH|TRACE) (/\S*)")
_OF_OPERATION: Final = frozenset({"delay", "dispatcher", "dispatcherRules", "parameterConstraints"})
_BY_REQUEST: Final = ("URI_PARTS", "URI_PARAMS", "URI_ELEMENTS", "QUERY_ARGS", "QUERY_HEADER")
_LAYERED: Final = ("FALLBACK", "PROXY_FALLBACK")
MAX_LAYERS: Final = 3  # dispatchers in dispatchers
Say = Callable[[str], None]


def is_microcks(document: Any) -> bool:
    """Return whether a document is one of the two kinds."""
    version = text_at(document, "apiVersion").startswith("mocks.microcks.io/")
    return version and text_at(document, "kind") in (EXAMPLES, METADATA)


def stubs_of_microcks(documents: Mapping[str, Any]) -> list[Stubs]:
    """Return the stubs of each API of the documents, which are by the name of their file."""
    apis: dict[str, list[tuple[str, Any]]] = {}
    for where, document in documents.items():
        title = text_at(document.get("metadata"), "name")
        apis.setdefault(title, []).append((where, document))
    return [_stubs_of_api(title, listed) for title, listed in apis.items()]


def _stubs_of_api(title: str, documents: list[tuple[str, Any]]) -> Stubs:
    made = Stubs(title=title)
    specs = {
        name: _spec(metadata, partial(made.say, f"{where}: {name}"))
        for where, name, metadata in _operations(documents, METADATA)
    }
    for where, name, examples in _operations(documents, EXAMPLES):
        say = partial(made.say, f"{where}: {name}")
        route = _OPERATION.fullmatch(name)
        if route is None:
            say("left out: only operations of HTTP have examples")
            continue
        method, template = route.groups()
        made.stubs += [
            Stub(method, template, example, each, specs.get(name, {}))
            for example, each in _examples(template, examples, say)
        ]
    if len(made.stubs) > MAX_STUBS:
        made.say(title, f"more than {MAX_STUBS} examples")
        del made.stubs[MAX_STUBS:]
    for name in specs.keys() - {f"{each.method} {each.template}" for each in made.stubs}:
        made.say(name, "its metadata are left out: they need the APIExamples beside them")
    return made


def _operations(
    documents: list[tuple[str, Any]], kind: str
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield file, name and value of each operation in the documents of a kind."""
    for where, document in documents:
        for name, each in mapping_at(document, "operations").items():
            if document["kind"] == kind and isinstance(each, dict):
                yield where, name, each


def _examples(
    template: str, examples: Mapping[str, Any], say: Say
) -> Iterator[tuple[str, Document]]:
    """Yield the examples by name: those of equal parameters are told apart by their bodies."""
    asked = {name: _parameters(template, mapping_at(each, "request"))
             for name, each in examples.items()}  # fmt: skip
    often = Counter(str(each) for each in asked.values())
    for name, each in examples.items():
        request, response = mapping_at(each, "request"), mapping_at(each, "response")
        if not response:
            say(f"{name}: left out: it has no response")
            continue
        when = asked[name]
        body = _body(request.get("body"))
        if often[str(when)] > 1:
            when = [*when, *(condition("body", name, each) for name, each in leaves(body))]
        made: Document = {"when": when[:MAX_CONDITIONS]} if when else {}
        if body is not None:
            made["request"] = {"body": literal(body)}
        yield name, {**made, "response": _response(template, response, say)}


def _parameters(template: str, request: Mapping[str, Any]) -> list[Document]:
    return [
        condition("path" if f"{{{name}}}" in template else "query", name, as_text(value))
        for name, value in mapping_at(request, "parameters").items()
        if value is not None
    ]


def _response(template: str, response: Mapping[str, Any], say: Say) -> Document:
    def render(value: Any) -> Any:
        return translate(value, lambda text: _expression(text, template), say)

    headers = {
        name: render(", ".join(map(str, value)) if isinstance(value, list) else as_text(value))
        for name, value in mapping_at(response, "headers").items()
    }
    status = response.get("status") or response.get("code") or 200
    made = response_of(status, headers, media_type=text_at(response, "mediaType"))
    body = _body(response.get("body"))
    return made if body is None else {**made, "body": render(body)}


def _body(value: Any) -> Any:
    """Return a body that is written as a value, or as a text of JSON or anything else."""
    return body_value(value) if isinstance(value, str) else value


_FIELD: Final = re.compile(r"request\.(params|query|headers)\[(['\"]?)([\w-]+)\2\]")
_POINTER: Final = re.compile(r"request\.body((?:/[\w-]+)+)")


def _expression(text: str, template: str) -> str:
    """Return an expression of our templates for one of Microcks, itself if nothing is known."""
    if found := _FIELD.fullmatch(text):
        if found[1] == "headers":
            return f"request.headers.{found[3].lower()}"
        root = "path" if f"{{{found[3]}}}" in template else "query"
        return f"request.{root}.{found[3]}"
    if found := _POINTER.fullmatch(text):
        return f"request.body{found[1].replace('/', '.')}"
    return {"request.body": "request.rawBody"}.get(text, text)


def _spec(metadata: Mapping[str, Any], say: Say) -> Document:
    """Return the metadata of an operation."""
    made: Document = {}
    delay = metadata.get("delay")
    if isinstance(delay, int) and not isinstance(delay, bool) and delay > 0:
        made["delayMillis"] = min(delay, 60_000)
    constraints = [
        {"name": text_at(each, "name"), "source": text_at(each, "in") or "query",
         "required": each.get("required") is True, "forward": each.get("recopy") is True}
        | ({"pattern": pattern} if (pattern := text_at(each, "mustMatchRegexp")) else {})
        for each in list_at(metadata, "parameterConstraints") if isinstance(each, dict)
    ]  # fmt: skip
    if constraints:
        made["parameterConstraints"] = constraints
    for key in metadata.keys() - _OF_OPERATION:
        say(f"{str(key)[:60]} is left out")
    made |= _dispatch(text_at(metadata, "dispatcher"), metadata.get("dispatcherRules"), say)
    return made


def _dispatch(dispatcher: str, rules: Any, say: Say, depth: int = 0) -> Document:
    """Return how an operation chooses its example, {} for by its conditions."""
    parsed = parse_json(rules) if isinstance(rules, str) else rules
    made: Document = {}
    if dispatcher == "RANDOM":
        made["dispatcher"] = "random"
    elif dispatcher == "PROXY":
        say("PROXY: examples whose conditions hold still answer first")
        made["fallback"] = _proxy(str(rules))
    elif dispatcher == "JSON_BODY" and (script := _script(parsed)):
        made = {"dispatcher": "script", "dispatcherRules": script}
    elif dispatcher in _LAYERED and isinstance(parsed, dict) and depth < MAX_LAYERS:
        inner, name = text_at(parsed, "dispatcher"), text_at(parsed, "fallback")
        made = _dispatch(inner, parsed.get("dispatcherRules"), say, depth + 1)
        url = text_at(parsed, "proxyUrl")
        made["fallback"] = _proxy(url) if url else {"mode": "example", "exampleName": name}
    elif dispatcher and dispatcher not in _BY_REQUEST:
        say(f"the dispatcher {dispatcher[:40]} is left out; conditions choose the example")
    return made


def _proxy(url: str) -> Document:
    return {"mode": "proxy", "proxyUrl": f"{url.strip().rstrip('/')}/"}


def _script(rules: Any) -> str:
    """Return Starlark that chooses by the value at a pointer of the body, "" for other rules."""
    operator = text_at(rules, "operator") or text_at(rules, "op") or "equals"
    cases, pointer = mapping_at(rules, "cases"), text_at(rules, "exp")
    if operator != "equals" or not pointer.startswith("/") or not cases:
        return ""
    value = "request.body"
    for name in pointer[1:].split("/"):
        value = f"({value} or {{}}).get({json.dumps(name)})"
    names = {str(key): str(each) for key, each in cases.items() if key != "default"}
    names |= {key.title(): names[key] for key in ("true", "false") if key in names}  # of Starlark
    otherwise = json.dumps(str(cases["default"])) if "default" in cases else "None"
    return f"{json.dumps(names)}.get(str({value}), {otherwise})"
