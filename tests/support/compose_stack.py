"""The services of docker-compose.yml as processes of this machine, where no image can be had.

Each of ours runs its own command with its own environment and volumes. What a network of containers
would give is given otherwise, and nothing else is:

    compose                          here
    redis:6379 db 0                  the test's Redis, database 12
    mongo:27017 as the store         DB_DRIVER=postgres and POSTGRES_DSN, which the file offers
    orchestrator-api:50051           localhost, a free port
    :8000 :5657 :9090 :9091          127.0.0.1, free ports
    /state, /cache, /bundle          folders: one a volume, shared as the file shares them
    https://github.com               https on loopback, where nobody listens
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import redis

from tests.support import compose
from tests.support.processes import ROOT, Process, until
from tests.support.servers import free_port

OURS: Final = ("orchestrator-api", "orchestrator-worker", "gateway", "watcher")
REDIS_DB: Final = 12  # of no other test
START_S: Final = 60
# Where each listens: the variable, by the port inside its container.
LISTENERS: Final = {
    "orchestrator-api": {8000: "ORCHESTRATOR_HTTP_ADDR", 50051: "ORCHESTRATOR_GRPC_ADDR"},
    "orchestrator-worker": {},
    "gateway": {5657: "GATEWAY_ADDR", 9090: "ADMIN_ADDR"},
    "watcher": {9091: "ADMIN_ADDR"},
}


class ComposeStack:
    """`variables` are the operator's: those of the command line or `.env`."""

    def __init__(
        self, folder: Path, variables: Mapping[str, str], *, redis_address: str, dsn: str
    ) -> None:
        self.folder = folder
        self._dsn = dsn
        host, _, port = redis_address.rpartition(":")
        self.redis = redis.Redis(host=host, port=int(port), db=REDIS_DB)
        self._redis_at = (host, int(port))
        self.definitions = compose.services(variables)
        self.ports = {
            number: free_port() for listeners in LISTENERS.values() for number in listeners
        }
        self._make_volumes()
        self.bundle = folder / "config.cue"
        self.bundle.write_text(self._mapped_bundle())
        self.processes = {name: self._process(name) for name in OURS}

    def volume(self, name: str) -> Path:
        return self.folder / "volumes" / name

    def environment(self, name: str) -> dict[str, str]:
        """What the container would have, with the places of this machine."""
        given = {key: str(text) for key, text in self.definitions[name]["environment"].items()}
        placed = {key: self._placed(name, text) for key, text in given.items()}
        placed["CONFIG_PATH"] = str(self.bundle)
        if "ORCHESTRATOR_ADDR" in placed:
            placed["ORCHESTRATOR_ADDR"] = f"localhost:{self.ports[50051]}"
        if "DB_DRIVER" in placed:
            placed |= {"DB_DRIVER": "postgres", "POSTGRES_DSN": self._dsn}
        for number, variable in LISTENERS[name].items():
            placed[variable] = f"127.0.0.1:{self.ports[number]}"
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), **placed}

    def start(self, *names: str) -> None:
        for name in names:
            self.processes[name].start()

    def wait_until_healthy(self, *names: str) -> None:
        for name in names:
            check, log = partial(self._is_healthy, name), partial(self._log, name)
            until(check, within_s=START_S, each_s=0.5, what=log)

    def _log(self, name: str) -> str:
        return f"{name} is healthy\n{self.processes[name].tail()}"

    def stop(self) -> dict[str, int]:
        """SIGTERM to all at once; name → exit code."""
        for process in self.processes.values():
            process.send(signal.SIGTERM)
        return {name: process.wait(within_s=60) for name, process in self.processes.items()}

    def end(self) -> None:
        for process in self.processes.values():
            process.end()
        self.redis.flushdb()
        self.redis.close()

    def logs(self) -> str:
        return "\n".join(process.text() for process in self.processes.values())

    def post_webhook(self, path: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Over TLS, trusting the generated certificate of the gateway."""
        trusting = ssl.create_default_context(
            cafile=str(self.volume("state-gateway") / "inbound.crt")
        )
        url = f"https://localhost:{self.ports[5657]}{path}"
        request = urllib.request.Request(url, body, {**headers, "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30, context=trusting) as answer:
            return dict(json.load(answer), status=answer.status)

    def ask_api(self, path: str, key: str = "") -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        url = f"http://127.0.0.1:{self.ports[8000]}{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
                return answer.status, dict(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(json.load(error))

    def _process(self, name: str) -> Process:
        program, *arguments = self.definitions[name]["command"]
        known = {"python": [sys.executable], "celery": [sys.executable, "-m", "celery"]}
        line = [*known[program], *arguments]
        return Process(name, line, self.environment(name), self.folder / f"{name}.log")

    def _is_healthy(self, name: str) -> bool:
        """By the file's own check; what has none must run."""
        check = self.definitions[name].get("healthcheck")
        if not check:
            return self.processes[name].running
        kind, program, *arguments = check["test"]
        assert (kind, program) == ("CMD", "python")
        line = [sys.executable, *(self._on_loopback(text) for text in arguments)]
        return subprocess.run(line, check=False, capture_output=True, timeout=30).returncode == 0

    def _on_loopback(self, text: str) -> str:
        for number, port in self.ports.items():
            text = text.replace(f"127.0.0.1:{number}/", f"127.0.0.1:{port}/")
        return text

    def _make_volumes(self) -> None:
        """A folder each; a volume mounted below another is a link in it."""
        for name in OURS:
            for mount in self._volumes(name):
                self.volume(mount.source).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in OURS:
            mounted = self._volumes(name)
            for outer in mounted:
                for inner in mounted:
                    if inner.target.startswith(f"{outer.target}/"):
                        link = self.volume(outer.source) / inner.target[len(outer.target) + 1 :]
                        link.symlink_to(self.volume(inner.source))

    def _volumes(self, name: str) -> list[compose.Mount]:
        return [each for each in compose.mounts(self.definitions[name]) if not each.bind]

    def _placed(self, name: str, text: str) -> str:
        for mount in self._volumes(name):
            if text == mount.target or text.startswith(f"{mount.target}/"):
                return f"{self.volume(mount.source)}{text[len(mount.target) :]}"
        return text

    def _mapped_bundle(self) -> str:
        host, port = self._redis_at
        text = (ROOT / "config.cue").read_text()
        for there, here in {
            'host: "redis", port: 6379, db: 0': f'host: "{host}", port: {port}, db: {REDIS_DB}',
            '"/state/webhook-secret"': json.dumps(
                str(self.volume("state-gateway") / "webhook-secret")
            ),
            '"mongodb://mongo:27017"': f'"mongodb://127.0.0.1:{free_port()}"',
            '"https://github.com"': f'"https://127.0.0.1:{free_port()}"',
        }.items():
            assert there in text, f"config.cue has no {there}"
            text = text.replace(there, here)
        return text
