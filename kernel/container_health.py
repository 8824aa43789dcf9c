"""Whether the process of a container answers: the HEALTHCHECK of the image.

    python -m kernel.container_health

exits with 0 if it does, else with 1 and the reason. It asks what the command of the container
serves. A command that serves nothing (runner, Celery, a migration) is healthy while it runs: the
container ends with it. No library is imported, and little of the kernel: it runs often.
"""

from __future__ import annotations

import http.client
import ssl
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kernel.conf import container_environment

_COMMAND: Final = Path("/proc/1/cmdline")
_ANSWER_S: Final = 8.0
_OK: Final = 200
_ANY_HOST: Final = ("", "0.0.0.0", "::", "[::]")  # noqa: S104 - looked for, not listened on
# what each command reads its address from, where it listens without that, and its route
_SERVERS: Final = {
    "up": ("PORT", ":8090", "/healthz"),
    "run_worker": ("AGENT_PORT", ":8091", "/healthz"),
    "run_orchestrator": ("ORCHESTRATOR_HTTP_ADDR", ":8000", "/v1/health/liveness"),
    "run_gateway": ("ADMIN_ADDR", ":9090", "/health/liveness"),
    "run_watcher": ("ADMIN_ADDR", ":9091", "/health/liveness"),
}
_UVICORN_PORT: Final = "8000"


def main() -> int:
    words = _COMMAND.read_bytes().replace(b"\0", b" ").decode(errors="replace").split()
    if (address := address_of(words, container_environment())) is None:
        return 0
    try:
        status = ask(*address)
    except (OSError, http.client.HTTPException) as error:
        sys.stdout.write(f"{address[0]} does not answer: {error}\n")
        return 1
    if status != _OK:
        sys.stdout.write(f"{address[0]}{address[1]} answers {status}\n")
        return 1
    return 0


def address_of(words: Sequence[str], variables: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the address (`http://host:port`) and route to ask; None if nothing is served.

    `words`: the command of the container, also behind an init process or a shell.
    """
    if any(Path(word).name == "uvicorn" for word in words):
        host, port = _option(words, "--host"), _option(words, "--port") or _UVICORN_PORT
        scheme = "https" if _option(words, "--ssl-keyfile") else "http"
        return f"{scheme}://{_host_to_ask(host)}:{port}", "/healthz"
    for word in words:
        if word in _SERVERS:
            variable, default, path = _SERVERS[word]
            host, _, port = (variables.get(variable) or default).rpartition(":")
            return f"http://{_host_to_ask(host)}:{port}", path
    return None


def _option(words: Sequence[str], name: str) -> str:
    """Return the value of `--name value` or `--name=value`; empty without it."""
    for place, word in enumerate(words):
        if word == name:
            return "".join(words[place + 1 : place + 2])
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
    return ""


def _host_to_ask(host: str) -> str:
    return "127.0.0.1" if host in _ANY_HOST else host


def ask(address: str, path: str) -> int:
    """Return the status of the answer. Raises OSError, HTTPException."""
    scheme, _, place = address.partition("://")
    connection = (
        http.client.HTTPSConnection(place, timeout=_ANSWER_S, context=_own_certificate())
        if scheme == "https"
        else http.client.HTTPConnection(place, timeout=_ANSWER_S)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def _own_certificate() -> ssl.SSLContext:
    """Return a context that takes any certificate: it is that of this container."""
    trust = ssl.create_default_context()
    trust.check_hostname = False
    trust.verify_mode = ssl.CERT_NONE
    return trust


if __name__ == "__main__":
    sys.exit(main())
