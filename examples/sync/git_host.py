"""A Git host in small: a bare repository, served by `git http-backend`, and signed webhooks."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

BACKEND = ("PATH_INFO", "QUERY_STRING", "REQUEST_METHOD", "CONTENT_TYPE", "CONTENT_LENGTH")


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """The story is told by the demo."""


class GitHost:
    """One repository; loopback only, and nobody can push over HTTP."""

    def __init__(self, folder: Path, *, name: str, secret: str) -> None:
        self.name, self._secret = name, secret
        self._root, self._work = folder / "served", folder / "work"
        self._bare = self._root / f"{name}.git"
        self._git("init", "-q", "--bare", "-b", "main", str(self._bare), cwd=folder)
        for option in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
            self._git("config", option, "true", cwd=self._bare)
        self._git("init", "-q", "-b", "main", str(self._work), cwd=folder)
        self._server = make_server(
            "127.0.0.1", 0, self._serve, server_class=_Server, handler_class=_Quiet
        )
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def push(self, file: str, text: str) -> str:
        """A commit with this file on `main`; its id."""
        path = self._work / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self._git("add", file)
        self._git("commit", "-q", "-m", "Settings")
        self._git("push", "-q", str(self._bare), "main")
        return self._git("rev-parse", "HEAD")

    def webhook(self, commit: str) -> tuple[bytes, dict[str, str]]:
        """Body and headers of the push webhook that GitHub would send, with its signature."""
        push = {"ref": "refs/heads/main", "after": commit, "repository": {"full_name": self.name}}
        body = json.dumps(push).encode()
        signature = hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()
        return body, {
            "Content-Type": "application/json",
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": str(uuid.uuid4()),
            "X-Hub-Signature-256": f"sha256={signature}",
        }

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _git(self, *arguments: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=cwd or self._work, env=self._environment(),
            check=True, capture_output=True, text=True, start_new_session=True,
        )  # fmt: skip
        return done.stdout.strip()

    def _environment(self) -> dict[str, str]:
        who = {f"GIT_{role}_NAME": "Demo" for role in ("AUTHOR", "COMMITTER")}
        who |= {f"GIT_{role}_EMAIL": "demo@partita.local" for role in ("AUTHOR", "COMMITTER")}
        return who | {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def _serve(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI to CGI: what `git http-backend` wants to know is in its environment."""
        body = request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=self._cgi(request),
            check=True, capture_output=True, start_new_session=True,
        )  # fmt: skip
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        start(headers.pop("Status", "200 OK"), list(headers.items()))
        return [answer]

    def _cgi(self, request: dict[str, Any]) -> dict[str, str]:
        return self._environment() | {
            **{name: str(request.get(name, "")) for name in BACKEND},
            "GIT_PROJECT_ROOT": str(self._root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": request.get("HTTP_GIT_PROTOCOL", ""),
            "HTTP_CONTENT_ENCODING": request.get("HTTP_CONTENT_ENCODING", ""),
        }
