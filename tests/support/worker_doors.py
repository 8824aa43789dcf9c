"""Worker routes on loopback ports, for those who call workers: real ones, and ill-behaved ones."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import uvicorn

from worker.application import WorkerApplication
from worker.domain.runtime import RemovedResources


class RecordingWorker:
    """Knows every job; `told`: verb and job, in the order in which they came."""

    def __init__(self, agent_id: str, secret: str) -> None:
        self.agent_id = agent_id
        self.secret = secret
        self.told: list[tuple[str, str]] = []

    def info(self) -> dict[str, Any]:
        return {"agentId": self.agent_id}

    async def start(self, spec: Any, files: bytes | None) -> Any:
        raise NotImplementedError

    def cancel(self, job_id: str) -> bool:
        self.told.append(("cancel", job_id))
        return True

    async def cleanup(self, job_id: str) -> RemovedResources | None:
        self.told.append(("cleanup", job_id))
        return RemovedResources()


@contextlib.contextmanager
def served(worker: Any) -> Iterator[str]:
    """The worker application itself, on a thread; its base URL."""
    config = uvicorn.Config(WorkerApplication(worker), port=0, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


class Door(ThreadingHTTPServer):
    """Answers every POST alike: with a status, a `Location`, or (`hangs`) not at all."""

    daemon_threads = True

    def __init__(self, *, status: int = 200, location: str = "", hangs: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.status = status
        self.location = location
        self.opened = threading.Event()
        self.credentials: list[str] = []
        if not hangs:
            self.opened.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Door:
        threading.Thread(target=self.serve_forever, args=[0.05], daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.opened.set()
        self.shutdown()
        self.server_close()


class _Answering(BaseHTTPRequestHandler):
    server: Door

    def do_POST(self) -> None:
        self.server.credentials.append(self.headers["Authorization"] or "")
        self.server.opened.wait(10)
        with contextlib.suppress(OSError):
            self.send_response(self.server.status)
            if self.server.location:
                self.send_header("Location", self.server.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Nothing on stderr."""
