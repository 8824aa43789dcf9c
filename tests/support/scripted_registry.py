"""A registry whose answers a test writes: hostile manifests, layers, redirects and delays."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.http_threads import serve_http

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.partita.suite.layer.v1.tar+gzip"
SUITE = "application/vnd.partita.suite.v1"


@dataclass(slots=True)
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    drip_s: float = 0.0  # a byte at a time, with this pause
    length: int | None = None  # announced instead of the true one


Answering = Reply | Callable[[BaseHTTPRequestHandler], Reply]


class ScriptedRegistry:
    """`routes`: a path without its query → what is answered. `asked`: what came, in order."""

    def __init__(self) -> None:
        self.routes: dict[str, Answering] = {}
        self.asked: list[tuple[str, str, Mapping[str, str]]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def serve(
        self,
        layer: bytes,
        path: str = "core/shop",
        tag: str = "1.0",
        *,
        manifest: Mapping[str, Any] | bytes | None = None,
        media_type: str = OCI_MANIFEST,
        **changes: Any,
    ) -> str:
        """Serve a package; `changes` go into its layer's descriptor. Return the digest."""
        descriptor = {"mediaType": LAYER, "digest": digest_of(layer), "size": len(layer), **changes}
        content = manifest if isinstance(manifest, bytes) else encoded(descriptor, manifest)
        digest = digest_of(content)
        headers = {"Content-Type": media_type, "Docker-Content-Digest": digest}
        self.routes[f"/v2/{path}/manifests/{tag}"] = Reply(200, content, headers)
        self.routes[f"/v2/{path}/manifests/{digest}"] = Reply(200, content, headers)
        self.routes[f"/v2/{path}/blobs/{descriptor['digest']}"] = Reply(200, layer)
        tags = json.dumps({"name": path, "tags": [tag]}).encode()
        self.routes[f"/v2/{path}/tags/list"] = Reply(200, tags)
        return digest


def encoded(descriptor: Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> bytes:
    document = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": SUITE,
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "size": 2},
        "layers": [descriptor],
        **(changes or {}),
    }
    return json.dumps({key: value for key, value in document.items() if value is not None}).encode()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def archive(*entries: tarfile.TarInfo | tuple[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar+gzip of any entries: what they say is not checked."""
    return gzip.compress(tar(*entries, form=form), mtime=0)


def tar(*entries: tarfile.TarInfo | tuple[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as written:
        for entry in entries:
            if isinstance(entry, tuple):
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                written.addfile(info, io.BytesIO(entry[1]))
            else:
                written.addfile(entry, io.BytesIO(bytes(entry.size)))
    return buffer.getvalue()


def entry(name: str, kind: bytes, *, target: str = "", **pax: str) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.pax_headers = kind, target, dict(pax)
    return made


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: ScriptedRegistry

    def _answer(self) -> None:
        if size := int(self.headers.get("Content-Length") or 0):
            self.rfile.read(size)
        self.registry.asked.append((self.command, self.path, dict(self.headers)))
        found = self.registry.routes.get(self.path.partition("?")[0], Reply(404))
        self._write(found if isinstance(found, Reply) else found(self))

    do_GET = do_HEAD = do_POST = do_PUT = _answer  # noqa: N815 - names of the standard library

    def _write(self, reply: Reply) -> None:
        self.send_response(reply.status)
        length = len(reply.body) if reply.length is None else reply.length
        for name, value in {"Content-Length": str(length), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        step = 1 if reply.drip_s else len(reply.body) or 1
        for at in range(0, len(reply.body), step):
            self.wfile.write(reply.body[at : at + step])
            time.sleep(reply.drip_s)
        self.close_connection |= length > len(reply.body)

    def log_message(self, *_words: object) -> None:
        """Stay quiet."""

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client has refused what it saw
            super().handle()


@contextlib.contextmanager
def scripted() -> Iterator[ScriptedRegistry]:
    registry = ScriptedRegistry()
    handler = type("Handler", (_Handler,), {"registry": registry})
    with serve_http(handler) as server:
        registry.port = server.server_port
        yield registry
