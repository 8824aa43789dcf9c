"""A search index on loopback that speaks the `_bulk` form, and fails as a test says."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.http_threads import serve_http


@dataclass
class SearchIndex:
    """`documents` are what it took. `statuses` are answered to the next requests instead of 200;
    `items` decides on each line: 201, or what its item says. `gate` holds requests up while unset.
    """

    url: str = ""
    documents: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    items: dict[str, int] = field(default_factory=dict)  # message → status, once
    gate: threading.Event = field(default_factory=threading.Event)

    def bulk(self, body: bytes) -> dict[str, Any]:
        lines = body.decode().split("\n")
        assert lines.pop() == "", "a bulk body ends with a line feed"
        statuses = [self._take(json.loads(line)) for line in lines[1::2]]
        assert all(json.loads(line) == {"create": {}} for line in lines[::2])
        items = [{"create": {"status": status}} for status in statuses]
        return {"errors": any(status >= 400 for status in statuses), "items": items}

    def _take(self, document: dict[str, Any]) -> int:
        status = self.items.pop(document["message"], 201)
        if status == 201:
            self.documents.append(document)
        return status

    def messages(self) -> list[str]:
        return [document["message"] for document in self.documents]


@contextmanager
def serving() -> Iterator[SearchIndex]:
    index = SearchIndex()
    index.gate.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            index.gate.wait(30)
            index.paths.append(self.path)
            scheme, _, given = self.headers.get("Authorization", "").partition(" ")
            if scheme:
                index.credentials.append(base64.b64decode(given).decode())
            status = index.statuses.pop(0) if index.statuses else 200
            text = json.dumps(index.bulk(body) if status == 200 else {"error": "no"}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Quiet."""

    with serve_http(Handler) as server:
        index.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield index
        finally:
            index.gate.set()
