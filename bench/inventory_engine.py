"""An engine that answers the three lists of an inventory over a Unix socket, from memory.

python -m bench.inventory_engine SOCKET

It stands in for Docker: what is measured is our side alone, and the peer's floor is a client that
reads the same answers. One line is printed for each request.
"""

from __future__ import annotations

import json
import socketserver
import sys
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

CONTAINERS: Final = 500
RUNS: Final = 60
INSTALLATION: Final = "installation-of-the-bench"


def labels(number: int) -> dict[str, str]:
    run_id = f"run-{number % RUNS:012x}"
    return {
        "partita.managed": "true",
        "partita.installation": INSTALLATION,
        "partita.run_id": run_id,
        "partita.workspace_id": "00000000-0000-4000-8000-000000000001",
        "partita.suite": "shop",
        "partita.owner": "Ada Lovelace",
        "partita.profile": "",
        "partita.backend_id": "local-docker",
        "partita.orchestrator_id": "runner:bench",
        "partita.host_id": "0123456789abcdef",
        "partita.step": f"step-{number}",
        "partita.step_kind": "service",
        "partita.attempt": "1",
        "partita.started_at": "2026-11-27T10:00:00.000Z",
        "partita.job_id": f"job-{number:022d}",
        "partita.memory_limit_bytes": "1073741824",
    }


def containers() -> list[dict[str, Any]]:
    return [
        {
            "Id": f"{number:064x}",
            "Names": [f"/partita-run-{number % RUNS:012x}-step-{number}-a1"],
            "Image": "redis:7-alpine",
            "ImageID": f"sha256:{number:064x}",
            "Command": "docker-entrypoint.sh redis-server",
            "Created": 1_795_773_600 + number,
            "Ports": [{"IP": "127.0.0.1", "PrivatePort": 6379, "PublicPort": 40_000 + number,
                       "Type": "tcp"}],
            "Labels": labels(number),
            "State": "running" if number % 3 else "exited",
            "Status": "Up 2 minutes" if number % 3 else "Exited (0) 1 minute ago",
            "HostConfig": {"NetworkMode": f"partita-net-run-{number % RUNS:012x}"},
            "NetworkSettings": {"Networks": {"net": {"NetworkID": f"{number:064x}",
                                                     "IPAddress": "172.18.0.2"}}},
            "Mounts": [{"Type": "volume", "Name": f"{number:064x}", "Destination": "/partita"}],
        }
        for number in range(CONTAINERS)
    ]  # fmt: skip


def networks() -> list[dict[str, Any]]:
    return [
        {
            "Id": f"{number:064x}",
            "Name": f"partita-net-run-{number:012x}",
            "Created": "2026-11-27T10:00:00.123456789Z",
            "Driver": "bridge",
            "Scope": "local",
            "Labels": labels(number),
        }
        for number in range(RUNS)
    ]


def volumes() -> list[dict[str, Any]]:
    return [
        {
            "Name": f"{number:064x}",
            "CreatedAt": "2026-11-27T10:00:00Z",
            "Driver": "local",
            "Mountpoint": f"/var/lib/docker/volumes/{number:064x}/_data",
            "Labels": labels(number),
            "Scope": "local",
        }
        for number in range(CONTAINERS + RUNS)
    ]


ANSWERS: Final = {
    "version": {"ApiVersion": "1.43", "MinAPIVersion": "1.12", "Version": "24.0.0"},
    "containers/json": containers(),
    "networks": networks(),
    "volumes": {"Volumes": volumes(), "Warnings": []},
}
BODIES: Final = {path: json.dumps(answer).encode() for path, answer in ANSWERS.items()}


class EngineRequest(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].strip("/")
        name = path.partition("/")[2] if path.startswith("v1.") else path
        body = BODIES.get(name, b"{}")
        self.send_response(200 if name in BODIES else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_words: Any) -> None:
        """Say nothing beside the lines of requests."""


class EngineServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


if __name__ == "__main__":
    with EngineServer(sys.argv[1], EngineRequest) as server:
        server.serve_forever()
