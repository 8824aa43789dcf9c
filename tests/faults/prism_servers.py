"""Prism and `mock serve` as processes that answer the same calls."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bench.peers.mock_servers import PRISM
from tests.faults.contract_calls import Call
from tests.support.npm import npm_package
from tests.support.processes import ROOT, until
from tests.support.servers import free_port

ANSWER_TIMEOUT_S: Final = 30
MAX_TEXT: Final = 200_000
_PROGRAM: Final = "node_modules/@stoplight/prism-cli/dist/index.js"


@dataclass(frozen=True)
class Answer:
    """What of an answer is compared; `status` is 0 where the connection broke."""

    status: int
    media_type: str = ""
    allow: str = ""
    authenticate: str = ""
    has_body: bool = False
    text: str = ""  # of the body, its beginning; not recorded

    @property
    def recorded(self) -> list[int | str | bool]:
        return [self.status, self.media_type, self.allow, self.authenticate, self.has_body]


class Target:
    """A server, asked over one connection as long as it lasts."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = parts.hostname or "", parts.port or 80
        self._prefix = parts.path.rstrip("/")
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, call: Call) -> Answer:
        for _ in range(2):  # a connection may have been closed since its last answer
            try:
                return self._ask(call)
            except (OSError, http.client.HTTPException):
                self.close()
        return Answer(0)

    def _ask(self, call: Call) -> Answer:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(*self._address, timeout=ANSWER_TIMEOUT_S)
        wire = self._connection
        wire.putrequest(call.method, self._prefix + call.target, skip_accept_encoding=True)
        for name, text in call.headers:
            wire.putheader(name, text.encode("latin-1", "replace"))
        if call.body or call.method in ("POST", "PUT", "PATCH"):
            wire.putheader("Content-Length", str(len(call.body)))
        wire.endheaders(call.body or None)
        answer = wire.getresponse()
        text = answer.read().decode("utf-8", "replace")
        media_type = answer.getheader("Content-Type", "").partition(";")[0].strip().lower()
        allow = ", ".join(sorted(answer.getheader("Allow", "").replace(",", " ").split()))
        said = answer.getheader("WWW-Authenticate", "")
        return Answer(answer.status, media_type, allow, said, bool(text), text[:MAX_TEXT])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextlib.contextmanager
def prism(document: Path) -> Iterator[Target]:
    """Serve a document with Prism."""
    folder, port = npm_package("@stoplight/prism-cli", PRISM), free_port()
    command = ["node", str(folder / _PROGRAM), "mock", str(document), "--host", "127.0.0.1",
               "--port", str(port), "--verboseLevel", "silent"]  # fmt: skip
    with _running(command) as process:

        def is_open() -> bool:
            assert process.poll() is None, f"Prism ended with {document.name}"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return True
            return False

        until(is_open, within_s=60, what=f"Prism serves {document.name}")
        target = Target(f"http://127.0.0.1:{port}")
        yield target
        target.close()


@contextlib.contextmanager
def mock_serve(folder: Path, words: Sequence[str], log: Path) -> Iterator[dict[str, Any]]:
    """Serve a folder of contracts; give what `mock serve -o json` says at the start."""
    command = [sys.executable, "manage.py", "mock", "serve", str(folder)]
    with _running([*command, "--port", "0", "-o", "json", *words], log) as process:

        def said() -> str | None:
            assert process.poll() is None, log.read_text()
            first, newline, _ = log.read_text().partition("\n")
            return first if newline else None

        yield dict(json.loads(until(said, within_s=120, what="mock serve says that it serves")))


@contextlib.contextmanager
def _running(command: list[str], log: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    known = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    with contextlib.ExitStack() as stack:
        quiet = subprocess.DEVNULL
        output = stack.enter_context(log.open("wb")) if log else quiet
        process = subprocess.Popen(command, cwd=ROOT, env=known, stdout=output, stderr=quiet)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
