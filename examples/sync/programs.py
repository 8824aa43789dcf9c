"""The programs that the demo starts: the three processes of the sync stack, and Redis."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx

from examples.sync.story import StepMissed

ROOT = Path(__file__).resolve().parents[2]
STOP_S = 15.0


def free_ports(count: int) -> list[int]:
    """All different: the ports are held until the last one is known."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


class Programs:
    """Programs in one folder; each has a log there and nothing of the user's environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, name: str, command: Sequence[str], environment: dict[str, str], stdin: bytes = b""
    ) -> None:
        """In a session of its own: Ctrl-C reaches the demo only, which ends its programs."""
        given = self.folder / f"{name}.stdin"
        given.touch(mode=0o600)
        given.write_bytes(stdin)
        with given.open("rb") as source, self._log(name).open("wb") as log:
            self._running[name] = subprocess.Popen(
                command, env=environment | {"PATH": os.environ["PATH"], "HOME": str(self.folder)},
                cwd=ROOT, stdin=source, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        given.unlink()

    def manage(self, name: str, *arguments: str, environment: dict[str, str]) -> None:
        self.start(name, [sys.executable, "manage.py", *arguments], environment)

    def succeeded(self, name: str) -> bool:
        return self._running[name].poll() == 0

    def check(self) -> None:
        """Raises StepMissed when a program has failed."""
        for name, program in self._running.items():
            if program.poll():
                raise StepMissed(f"{name} ended with exit code {program.returncode}")

    def lines(self, name: str) -> list[str]:
        """All whole lines of its log."""
        log = self._log(name)
        return log.read_text(errors="replace").split("\n")[:-1] if log.exists() else []

    def last_lines(self) -> dict[str, list[str]]:
        """By program, without the questions whether they are ready."""
        return {
            name: [line for line in self.lines(name) if "/readiness" not in line][-8:]
            for name in sorted(path.stem for path in self.folder.glob("*.log"))
        }

    def stop(self) -> None:
        """SIGTERM to all; SIGKILL for what has not ended after 15 s."""
        for program in self._running.values():
            if program.poll() is None:
                program.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for program in self._running.values():
            try:
                program.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)
                program.wait()

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def _client(url: str) -> httpx.Client:
    """Without the proxies of the user's environment."""
    return httpx.Client(base_url=url, timeout=30, trust_env=False)


class SyncStack:
    """Gateway, orchestrator and watcher on loopback ports, with one SQLite store."""

    NAMES = ("orchestrator", "gateway", "watcher")

    def __init__(self, programs: Programs, config: Path, secrets: dict[str, str]) -> None:
        self._programs = programs
        grpc, http, gateway, *admin = free_ports(5)
        self._api = _client(f"http://127.0.0.1:{http}/v1")
        self.gateway = _client(f"http://127.0.0.1:{gateway}")
        self._admin = dict(zip(("gateway", "watcher"), admin, strict=True))
        folder = programs.folder
        self._environment = secrets | {
            "APP_ENV": "development",
            "CONFIG_PATH": str(config),
            "DB_DRIVER": "sqlite",
            "SQLITE_PATH": str(folder / "store.sqlite3"),
            "DATA_DIR": str(folder),
            "TMPDIR": str(folder),
            "GIT_CACHE_DIR": str(folder / "git-cache"),
            "ORCHESTRATOR_GRPC_ADDR": f"127.0.0.1:{grpc}",
            "ORCHESTRATOR_HTTP_ADDR": f"127.0.0.1:{http}",
            "ORCHESTRATOR_ADDR": f"127.0.0.1:{grpc}",
            "GATEWAY_ADDR": f"127.0.0.1:{gateway}",
            "POLL_INTERVAL": "1s",
        }

    def migrate(self) -> None:
        self._programs.manage(
            "migrate", "migrate", "--settings", "platform_site.settings.sync",
            environment=self._environment,
        )  # fmt: skip

    def start(self) -> None:
        for name in self.NAMES:
            admin = self._admin.get(name)
            more = {"ADMIN_ADDR": f"127.0.0.1:{admin}"} if admin else {}
            self._programs.manage(name, f"run_{name}", environment=self._environment | more)

    def is_ready(self) -> bool:
        """All three say so."""
        admin = [f"http://127.0.0.1:{port}/health" for port in self._admin.values()]
        return all(map(self._says_ready, [f"{self._api.base_url}health", *admin]))

    def ended_task(self, task_id: str) -> dict[str, Any] | None:
        """As the API shows it; None while it has not ended for good."""
        task = dict(self._get(f"tasks/{task_id}"))
        return task if task["state"] in {"SUCCEEDED", "FAILED", "DEAD"} else None

    def drift_states(self) -> dict[str, str]:
        """By rule."""
        return {episode["rule_id"]: episode["state"] for episode in self._get("drift")["drift"]}

    def _get(self, path: str) -> Any:
        return self._api.get(path).raise_for_status().json()

    def _says_ready(self, health: str) -> bool:
        with suppress(httpx.TransportError):
            return self._api.get(f"{health}/readiness").status_code == httpx.codes.OK
        return False

    def close(self) -> None:
        self._api.close()
        self.gateway.close()
