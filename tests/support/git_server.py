"""Real Git repositories to read from: bare ones on disk, and `git http-backend` over HTTP."""

from __future__ import annotations

import base64
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

_IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "PATH": "/usr/bin:/bin",
}


@dataclass
class Repository:
    """A working copy and the bare repository that it is pushed to."""

    folder: Path
    name: str = "acme/shop"
    work: Path = field(init=False)
    bare: Path = field(init=False)

    def __post_init__(self) -> None:
        self.work = self.folder / "work" / self.name
        self.bare = self.folder / "bare" / f"{self.name}.git"
        self.work.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", cwd=self.work)
        self.git("init", "-q", "--bare", "-b", "main", str(self.bare), cwd=self.folder)
        for option in ("allowFilter", "allowAnySHA1InWant"):
            self.git("config", f"uploadpack.{option}", "true", cwd=self.bare)
        self.git("config", "http.receivepack", "false", cwd=self.bare)
        self.git("remote", "add", "origin", str(self.bare))

    @property
    def url(self) -> str:
        return f"file://{self.bare}"

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        command = ["git", "-c", "protocol.file.allow=always", *arguments]
        done = subprocess.run(
            command, cwd=cwd or self.work, env=_IDENTITY, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str | None], *, branch: str = "main") -> str:
        """Write (None removes) and push; the new commit."""
        if branch != self.git("symbolic-ref", "--short", "HEAD"):
            known = self.git("branch", "--list", branch)
            self.git("checkout", "-q", *([] if known else ["-b"]), branch)
        for name, text in files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        self.push(branch)
        return self.head()

    def push(self, *refs: str) -> None:
        self.git("push", "-q", "--force", "origin", *refs)

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Say nothing."""


@dataclass
class HttpGit:
    """`git http-backend` behind WSGI. `password`: what basic auth must bring; `requests`: seen.

    `busy`: it answers 429 with this Retry-After.
    """

    root: Path
    password: str = ""
    redirect_to: str = ""
    busy: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    port: int = 0

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}.git"

    def __call__(
        self, environ: dict[str, Any], start: Callable[[str, list[tuple[str, str]]], Any]
    ) -> Iterable[bytes]:
        authorization = environ.get("HTTP_AUTHORIZATION", "")
        self.requests.append((environ["PATH_INFO"], authorization))
        if self.busy:
            start("429 Too Many Requests", [("Retry-After", self.busy)])
            return [b""]
        if self.redirect_to:
            start("301 Moved", [("Location", self.redirect_to + environ["PATH_INFO"])])
            return [b""]
        if self.password and self._given(authorization) != self.password:
            start("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="git"')])
            return [b""]
        return self._backend(environ, start)

    def _given(self, authorization: str) -> str:
        encoded = authorization.removeprefix("Basic ")
        return base64.b64decode(encoded).decode().partition(":")[2] if encoded else ""

    def _backend(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        names = ("PATH_INFO", "QUERY_STRING", "REQUEST_METHOD", "CONTENT_TYPE", "CONTENT_LENGTH")
        env = {name: str(environ.get(name, "")) for name in names} | _IDENTITY
        env |= {"GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1"}
        env |= {"GIT_PROTOCOL": environ.get("HTTP_GIT_PROTOCOL", "")}
        env |= {"HTTP_CONTENT_ENCODING": environ.get("HTTP_CONTENT_ENCODING", "")}
        done = subprocess.run(
            ["/usr/lib/git-core/git-http-backend"],
            input=body,
            env=env,
            capture_output=True,
            check=True,
        )
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")]
        status = next((value for name, value in headers if name == "Status"), "200 OK")
        start(status, [(name, value) for name, value in headers if name != "Status"])
        return [answer]


@contextmanager
def served(site: HttpGit) -> Iterator[HttpGit]:
    server = make_server("127.0.0.1", 0, site, handler_class=_Quiet)
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
