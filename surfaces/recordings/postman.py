"""Saved responses of a Postman collection (formats 1.0, 2.0 and 2.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from surfaces.recordings.calls import (
    MAX_PAIRS,
    Pairs,
    RecordedCall,
    Recording,
    decode_segment,
    list_at,
    pairs_at,
    split_url,
    text_at,
)

MAX_DEPTH: Final = 20  # folders in folders
_VARIABLE: Final = re.compile(r"\{\{([^{}]{1,100})\}\}")
_NAME: Final = re.compile(r"[^A-Za-z0-9_]+")


def is_postman(document: Any) -> bool:
    """Return whether a document is a collection, of whatever format."""
    if not isinstance(document, dict):
        return False
    if isinstance(document.get("requests"), list):  # 1.0
        return bool({"order", "folders"} & document.keys())
    info = document.get("info")
    is_named = "postman" in text_at(info, "schema") or bool(text_at(info, "_postman_id"))
    return isinstance(document.get("item"), list) and is_named


def calls_of_postman(document: Any) -> Recording:
    """Return a call for each saved response; requests without one are left out."""
    if "item" not in document:
        document = _as_format_2(document)
    made = Recording(title=text_at(document.get("info"), "name"))
    variables = dict(pairs_at(document, "variable", "key"))
    for item in _items(document, 0):
        responses = [each for each in list_at(item, "response") if isinstance(each, dict)]
        if not responses:
            made.left_out["a request without a saved response"] += 1
        for response in responses:
            request = response.get("originalRequest") or item.get("request")
            _add(request, response, variables, made)
    return made


def _items(folder: Any, depth: int) -> Iterator[dict[str, object]]:
    for each in list_at(folder, "item") if depth < MAX_DEPTH else ():
        if not isinstance(each, dict):
            continue
        if isinstance(each.get("item"), list):
            yield from _items(each, depth + 1)
        elif "request" in each:
            yield each


def _add(
    request: Any, response: Mapping[str, object], variables: Mapping[str, str], made: Recording
) -> None:
    request = {"url": request} if isinstance(request, str) else request
    status = response.get("code")
    if not isinstance(request, dict) or not isinstance(status, int) or not 100 <= status <= 599:  # noqa: PLR2004
        made.left_out["a saved response without a status"] += 1
        return
    address = _Address.of(request.get("url"), variables)
    made.add(
        RecordedCall(
            method=(text_at(request, "method") or "GET").upper(),
            path=address.template,
            template=address.template,
            params=address.params,
            query=address.query,
            status=status,
            name=text_at(response, "name"),
            request_headers=pairs_at(request, "header", "key"),
            request_body=_request_body(request.get("body"), variables),
            response_headers=pairs_at(response, "header", "key"),
            response_body=text_at(response, "body"),
        )
    )


@dataclass(frozen=True, slots=True)
class _Address:
    template: str
    params: Pairs
    query: Pairs

    @classmethod
    def of(cls, url: Any, variables: Mapping[str, str]) -> _Address:
        """Return path and query of a URL; `:id` and unknown `{{variables}}` are parameters."""
        if isinstance(url, str):
            url = {"raw": url}
        raw = _fill(text_at(url, "raw"), variables)
        values = dict(pairs_at(url, "variable", "key"))
        query = pairs_at(url, "query", "key")
        if "path" in (url if isinstance(url, dict) else {}):
            path = "/".join(each for each in list_at(url, "path") if isinstance(each, str))
            path = _fill(path, variables)
        else:
            without_host = re.sub(r"^(?:\w+://)?[^/?#]*", "", raw)
            _, path, raw_query = split_url(without_host)
            query = query or raw_query
        segments = [_segment(each, values) for each in path.strip("/").split("/")]
        params = tuple((name, value) for _, name, value in segments if name and value)
        filled = tuple((key, _fill(value, variables)) for key, value in query)
        known = tuple(pair for pair in filled if "{{" not in pair[1])
        return cls("/" + "/".join(text for text, _, _ in segments), params, known)


def _segment(text: str, values: Mapping[str, str]) -> tuple[str, str, str]:
    """Return a segment of the template, its parameter and the value that it had."""
    if text.startswith(":") and len(text) > 1:
        name = _NAME.sub("_", text[1:])
        value = values.get(text[1:], "")
        return f"{{{name}}}", name, "" if "{{" in value else decode_segment(value)
    if found := _VARIABLE.fullmatch(text):
        name = _NAME.sub("_", found[1])
        return f"{{{name}}}", name, ""
    return text, "", ""


def _fill(text: str, variables: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), text)


def _request_body(body: Any, variables: Mapping[str, str]) -> str:
    mode = text_at(body, "mode")
    if mode in ("urlencoded", "formdata"):
        return urlencode(pairs_at(body, mode, "key"))
    return _fill(text_at(body, "raw"), variables)


def _as_format_2(collection: Any) -> dict[str, object]:
    """Return a collection of format 1.0 as one of 2.0: its requests stand in no folders."""
    items = []
    for each in list_at(collection, "requests"):
        request = _request_of_format_1(each)
        responses = [
            {
                "name": text_at(response, "name"),
                "code": _code_of_format_1(response),
                "header": list_at(response, "headers"),
                "body": text_at(response, "text"),
                "originalRequest": _request_of_format_1(response.get("request")) or request,
            }
            for response in list_at(each, "responses")
            if isinstance(response, dict)
        ]
        items.append({"name": text_at(each, "name"), "request": request, "response": responses})
    return {
        "info": {"name": text_at(collection, "name")},
        "item": items,
        "variable": list_at(collection, "variables"),
    }


def _code_of_format_1(response: Mapping[str, Any]) -> object:
    given = response.get("responseCode")
    return given.get("code") if isinstance(given, dict) else given


def _request_of_format_1(request: Any) -> dict[str, object]:
    """Return a request of format 2.0, {} for what is none."""
    if not isinstance(request, dict):
        return {}
    values = request.get("pathVariables")
    pairs = values.items() if isinstance(values, dict) else ()
    mode, data = text_at(request, "dataMode"), request.get("data")
    raw = text_at(request, "rawModeData") or text_at(request, "data")
    fields = {"urlencoded": "urlencoded", "params": "formdata"}.get(mode, "")
    lines = (line.partition(":") for line in text_at(request, "headers").split("\n")[:MAX_PAIRS])
    return {
        "method": text_at(request, "method"),
        "url": {
            "raw": text_at(request, "url"),
            "variable": [{"key": key, "value": value} for key, value in pairs],
        },
        "header": list_at(request, "headerData")
        or [{"key": key.strip(), "value": value.strip()} for key, _, value in lines],
        "body": {"mode": fields, fields: data} if fields else {"mode": "raw", "raw": raw},
    }
