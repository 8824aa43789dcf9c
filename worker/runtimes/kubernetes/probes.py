"""Probes of a service from inside its pod: through the keeper, which shares its network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from worker.domain.readiness import HttpProbe, ProbeResponse, TcpProbe
from worker.runtimes.kubernetes.pod_keepers import Keepers

_TRY_S: Final = 5
_STATUS_PARTS: Final = 2


async def probe(
    keepers: Keepers,
    pod: str,
    address: str,
    wanted: HttpProbe | TcpProbe,
    headers: Mapping[str, str],
) -> ProbeResponse:
    """Return the response of the pod's own address; what listens on loopback only fails."""
    pipe = f"nc -w {_TRY_S} {address} {wanted.port}"
    if isinstance(wanted, TcpProbe):
        result = await keepers.run(pod, ["sh", "-c", f"timeout {_TRY_S} {pipe} -e true"])
        return ProbeResponse(problem=_why(result.exit_code, result.errors, wanted.port))
    request = _request(address, wanted, headers)
    script = f'head -c "$1" | timeout {_TRY_S} {pipe} | head -n 1'
    argv = ["sh", "-c", script, "sh", str(len(request))]
    result = await keepers.run(pod, argv, stdin=request)  # audit logs have every argument
    words = result.output.decode("latin-1").split()
    if len(words) >= _STATUS_PARTS and words[0].startswith("HTTP/") and words[1].isdecimal():
        return ProbeResponse(status=int(words[1]))
    if words:
        return ProbeResponse(problem=f"port {wanted.port} does not answer in HTTP")
    return ProbeResponse(problem=_why(result.exit_code or 1, result.errors, wanted.port))


def _request(address: str, wanted: HttpProbe, headers: Mapping[str, str]) -> bytes:
    own = {"host": f"{address}:{wanted.port}", "connection": "close", "accept": "*/*"}
    given = {name.lower(): value for name, value in headers.items()}
    lines = [f"{_plain(name)}: {_plain(value)}" for name, value in (own | given).items()]
    target = quote(wanted.target, safe="/?&=%:;,+$!*'()@~#[]")
    return "\r\n".join((f"GET {target} HTTP/1.1", *lines, "", "")).encode()


def _plain(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def _why(code: int, errors: bytes, port: int) -> str:
    if not code:
        return ""
    text = errors.decode(errors="replace").strip().rpartition("\n")[2]
    return text or f"port {port} gave no answer within {_TRY_S} s"
