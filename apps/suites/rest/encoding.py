"""Definitions as JSON, encoded once for as long as they are the same.

A Definition is encoded for its own route with its ETag, and for lists in each of their views. The
library returns the same object until the suite changes, which is how an entry is known to hold.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpResponse
from rest_framework.request import Request

from apps.http.api import is_not_modified, strong_etag
from apps.suites.domain.definition import DefinitionDocument, summary_of, without_contents

_KEPT: Final = 1024
_SHOWN: Final[Mapping[str, Callable[[DefinitionDocument], Mapping[str, Any]]]] = {
    "detail": lambda definition: definition,
    "full": without_contents,
    "summary": summary_of,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoded:
    definition: DefinitionDocument  # held, so that its identity is not given to another one
    body: bytes
    etag: str


class EncodedDefinitions:
    """The JSON of Definitions by view. It is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], _Encoded] = OrderedDict()

    def encode(self, view: str, definition: DefinitionDocument) -> _Encoded:
        """Encode a Definition in a view, unless it is kept already."""
        key = view, definition["id"]
        with self._lock:
            known = self._kept.get(key)
            if known is not None and known.definition is definition:
                self._kept.move_to_end(key)
                return known
        shown = _SHOWN[view](definition)
        made = _Encoded(
            definition=definition,
            body=_json(shown),
            etag=strong_etag(shown) if view == "detail" else "",
        )
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made


_definitions: Final = EncodedDefinitions()


def definition_response(request: Request, definition: DefinitionDocument) -> HttpResponse:
    """Return a Definition with its ETag; 304 without a body when `If-None-Match` names it."""
    encoded = _definitions.encode("detail", definition)
    headers = {"ETag": encoded.etag}
    known = request.headers.get("If-None-Match", "")
    if known and is_not_modified(encoded.etag, known):
        return HttpResponse(status=304, headers=headers)
    return HttpResponse(encoded.body, content_type="application/json", headers=headers)


def list_response(
    definitions: Sequence[DefinitionDocument], view: str, rest: Mapping[str, Any]
) -> HttpResponse:
    """Return `suites` in the view `full` or `summary`, and the other keys of a page."""
    bodies = b",".join(_definitions.encode(view, each).body for each in definitions)
    tail = _json(rest)[1:]
    return HttpResponse(
        b'{"suites":[' + bodies + b"]" + (b"," if rest else b"") + tail,
        content_type="application/json",
    )


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
