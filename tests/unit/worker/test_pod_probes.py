"""Probes from inside a pod."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster_api import ClusterApi, launch
from worker.domain.readiness import HttpProbe
from worker.runtimes.kubernetes.client import ClusterClient
from worker.runtimes.kubernetes.exec_stream import ExecResult


async def test_headers_and_path_of_a_probe_are_in_no_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Sequence[str], bytes]] = []

    async def run(
        self: ClusterClient, pod: str, container: str, argv: Sequence[str], **options: Any
    ) -> ExecResult:
        calls.append((argv, options.get("stdin", b"")))
        return ExecResult(exit_code=0, output=b"HTTP/1.1 204 No Content\r\n")

    monkeypatch.setattr(ClusterClient, "run", run)
    runtime = ClusterApi().runtime(tmp_path)
    unit = await runtime.start(launch())
    probe = HttpProbe(port=8080, path="/ready?key=hidden-key")

    answer = await runtime.probe_inside(unit, probe, {"Authorization": "Bearer hidden-wörd"})

    assert answer.status == 204
    [(argv, request)] = calls
    assert "hidden" not in " ".join(argv)
    assert request.startswith(b"GET /ready?key=hidden-key HTTP/1.1\r\n")
    assert "authorization: Bearer hidden-wörd\r\n".encode() in request
    assert argv[-1] == str(len(request))
    await runtime.close()
