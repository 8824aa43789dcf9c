"""A mock server of the benchmark: started on one core, checked, loaded, stopped."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc
import httpx
import psutil

from bench.mock_api import ID, METHOD, Request, grpc_request
from bench.mock_load import FIRST_ID, SERVER_CORE, Figures, load, load_grpc, memory_mb, write_script
from bench.stand import ROOT
from tests.support.servers import free_port

START_S: Final = 60.0
_POLL_S: Final = 0.005


@dataclass
class Server:
    """What is started by `command(port)`, and the requests that it gets.

    `warm_up_s`: how long it is loaded before its first turn.
    """

    name: str
    answers: str
    requests: Sequence[Request]
    command: Callable[[int], list[str]]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    warm_up_s: float = 2.0
    turns: list[Figures] = field(default_factory=list)
    cold_start_s: list[float] = field(default_factory=list)
    memory_mb: float = 0.0
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait for its first answer; count the time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        command = ["taskset", "-c", str(SERVER_CORE), *self.command(self.port)]
        environment = {**os.environ, **self.environment}
        started = time.perf_counter()
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, cwd=ROOT, stdout=log, stderr=log
            )
        self._wait()
        self.cold_start_s.append(time.perf_counter() - started)

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            if self._answers():
                return
            time.sleep(_POLL_S)
        raise RuntimeError(f"{self.name} did not start:\n{self.log()}")

    def _answers(self) -> bool:
        try:
            return self._ask(self.requests[0]).is_success
        except httpx.TransportError:
            return False

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process, "not started"
        return self._process

    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")[-3000:]

    def check(self) -> None:
        """Send each request once; raise RuntimeError unless its answer is what it must be."""
        for request in self.requests:
            answer = self._ask(request)
            wanted = [text.replace(ID, str(FIRST_ID)) for text in request.expected]
            missing = [text for text in wanted if text not in answer.text]
            if not answer.is_success or missing:
                said = f"{answer.status_code} {answer.text[:300]}"
                raise RuntimeError(
                    f"{self.name}: {request.method} {request.path}: {said}; no {missing}"
                )

    def _ask(self, request: Request) -> httpx.Response:
        path = request.path.replace(ID, str(FIRST_ID))
        return httpx.request(
            request.method, f"http://127.0.0.1:{self.port}{path}",
            headers=dict(request.headers), content=request.body or None, timeout=5,
        )  # fmt: skip

    def warm_up(self) -> None:
        script = self.folder / "wrk.lua"
        write_script(script, self.requests)
        self._load(self.warm_up_s)

    def turn(self, seconds: float) -> None:
        """Load it once more. Raises RuntimeError when one request in a hundred fails."""
        figures = self._load(seconds)
        if figures.failed > figures.rate * seconds / 100:
            raise RuntimeError(f"{self.name}: {figures.failed} requests failed\n{self.log()}")
        self.turns.append(figures)
        self.memory_mb = memory_mb(psutil.Process(self.process.pid))

    def _load(self, seconds: float) -> Figures:
        process = psutil.Process(self.process.pid)
        return load(process, self.port, self.folder / "wrk.lua", seconds)

    def stop(self) -> None:
        if self._process is None:
            return
        below = psutil.Process(self._process.pid).children(recursive=True)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for each in below:
            if each.is_running():
                each.kill()
        self._process = None


class GrpcServer(Server):
    """A gRPC server; its one method takes the requests."""

    def _answers(self) -> bool:
        try:
            self._call()
        except grpc.RpcError:
            return False
        return True

    def check(self) -> None:
        if b"cart-8" not in (answer := self._call()):
            raise RuntimeError(f"{self.name}: {METHOD}: {answer!r}")

    def _call(self) -> bytes:
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            answer: bytes = channel.unary_unary(METHOD)(grpc_request()[5:], timeout=5)
            return answer

    def _load(self, seconds: float) -> Figures:
        process = psutil.Process(self.process.pid)
        return load_grpc(process, self.port, self.folder, seconds)
