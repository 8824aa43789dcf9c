"""Load on a mock server by wrk or h2load on one core, and what it cost the server on the other."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from bench.mock_api import METHOD, Request, grpc_request
from bench.sse_client import percentile

CONNECTIONS: Final = 32
FIRST_ID, LAST_ID = 1001, 1300  # more paths than a server of paths keeps in a cache
SERVER_CORE: Final = 0
LOAD_CORE: Final = 1
_SCRIPT: Final = """
local asked, turn = {}, 0
local function ask(method, path, headers, body)
  for id = %d, %d do
    asked[#asked + 1] = {id, wrk.format(method, path:gsub("{id}", id), headers, body)}
  end
end
function init(args)
%s
  table.sort(asked, function(a, b) return a[1] < b[1] end)
end
function request()
  turn = turn %% #asked + 1
  return asked[turn][2]
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\\nRESULT {"requests":%%d,"us":%%d,"failed":%%d,"p50":%%d,"p99":%%d}\\n',
    summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"""


@dataclass(frozen=True)
class Figures:
    """What a turn of load took; times in milliseconds, `cpu_us` of the server for each request."""

    cpu_us: float
    rate: float
    p50_ms: float
    p99_ms: float
    failed: int


def write_script(path: Path, requests: Sequence[Request]) -> None:
    """Write the wrk script that sends `requests` in turns, each with one id after the other."""
    lines = [
        f"  ask({_lua(each.method)}, {_lua(each.path)}, "
        f"{{{', '.join(f'[{_lua(name)}] = {_lua(text)}' for name, text in each.headers.items())}}}"
        f", {_lua(each.body) if each.body else 'nil'})"
        for each in requests
    ]
    path.write_text(_SCRIPT % (FIRST_ID, LAST_ID, "\n".join(lines)))


def _lua(text: str) -> str:
    return json.dumps(text)  # no escape in which JSON and Lua differ is used here


def load(
    server: psutil.Process, port: int, script: Path, seconds: float, connections: int = CONNECTIONS
) -> Figures:
    """Load the server for so long. Raises RuntimeError with what wrk said when it fails."""
    before = cpu_s(server)
    command = [
        "taskset", "-c", str(LOAD_CORE), "wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s",
        "-s", str(script), f"http://127.0.0.1:{port}/",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    spent = cpu_s(server) - before
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not found:
        raise RuntimeError(f"wrk: {done.stdout}{done.stderr}")
    result = json.loads(found[0].removeprefix("RESULT "))
    requests = max(result["requests"], 1)
    return Figures(
        cpu_us=spent * 1e6 / requests,
        rate=requests * 1e6 / result["us"],
        p50_ms=result["p50"] / 1000,
        p99_ms=result["p99"] / 1000,
        failed=result["failed"],
    )


def load_grpc(server: psutil.Process, port: int, folder: Path, seconds: float) -> Figures:
    """Load a gRPC server with unary calls, for so long."""
    frame, log = folder / "frame", folder / "h2load.log"
    frame.write_bytes(grpc_request())
    log.unlink(missing_ok=True)
    before = cpu_s(server)
    command = [
        "taskset", "-c", str(LOAD_CORE), "h2load", f"--duration={seconds:g}", "--clients=4",
        f"--max-concurrent-streams={CONNECTIONS // 4}", "--threads=1", f"--data={frame}",
        "--header=content-type: application/grpc", "--header=te: trailers", f"--log-file={log}",
        f"http://127.0.0.1:{port}{METHOD}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    spent = cpu_s(server) - before
    found = re.search(r"(\d+) done, (\d+) succeeded", done.stdout)
    if done.returncode or found is None:
        raise RuntimeError(f"h2load: {done.stdout}{done.stderr}")
    took_ms = [int(line.split()[2]) / 1000 for line in log.read_text().splitlines()]
    requests = max(int(found[1]), 1)
    return Figures(
        cpu_us=spent * 1e6 / requests,
        rate=requests / seconds,
        p50_ms=percentile(took_ms, 0.5),
        p99_ms=percentile(took_ms, 0.99),
        failed=int(found[1]) - int(found[2]),
    )


def cpu_s(server: psutil.Process) -> float:
    """Return the CPU that the process and all below it have used."""
    return sum(each.cpu_times().user + each.cpu_times().system for each in _tree(server))


def memory_mb(server: psutil.Process) -> float:
    """Return the resident memory of the process and all below it."""
    return sum(each.memory_info().rss for each in _tree(server)) / 2**20


def _tree(server: psutil.Process) -> list[psutil.Process]:
    return [server, *server.children(recursive=True)]
