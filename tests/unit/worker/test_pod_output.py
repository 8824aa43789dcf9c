"""The output of a pod that is silent for long, or whose node gives no answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.support.cluster_api import RUNNING, ClusterApi, Silence, launch, refusal
from worker.domain.runtime import RuntimeUnavailable
from worker.runtimes.kubernetes.runtime import KubernetesRuntime

ENDED = {
    **RUNNING,
    "containerStatuses": [{"name": "step", "state": {"terminated": {"exitCode": 0}}}],
}
LINE = b"2026-01-02T03:04:05.000000001Z hello\n"


async def texts(api: ClusterApi, runtime: KubernetesRuntime) -> list[bytes]:
    """Start a step, read all of its output; the pod has ended when the last answer is given."""
    unit = await runtime.start(launch())
    pod = api.objects["pods"][unit.name]
    answers = iter(list(api.logs))

    async def ended_with_last(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/log"):
            return await api.respond(request)
        answer = next(answers, None)
        if answer is None:
            pod["status"] = ENDED
            return httpx.Response(200, content=LINE)
        return answer

    runtime._client._client._transport = httpx.MockTransport(ended_with_last)
    async with asyncio.timeout(20):
        found = [each.data async for batch in runtime.output(unit) for each in batch]
    await runtime.close()
    return found


async def test_a_step_that_prints_nothing_for_long_is_no_failure(tmp_path: Path) -> None:
    api = ClusterApi()
    api.logs = [httpx.Response(200, stream=Silence(0.05)) for _ in range(12)]
    runtime = api.runtime(tmp_path, unavailable_after_s=0.2, log_silence_s=0.05)

    assert await texts(api, runtime) == [b"hello\n"]


async def test_a_node_that_refuses_logs_for_too_long_is_unavailable(tmp_path: Path) -> None:
    api = ClusterApi()
    api.logs = [refusal(500, "InternalError", "dial tcp: refused") for _ in range(50)]
    runtime = api.runtime(tmp_path, unavailable_after_s=0.3)

    with pytest.raises(RuntimeUnavailable, match="cannot be read: dial tcp: refused"):
        await texts(api, runtime)


async def test_a_log_that_only_the_kubelet_speaks_of_is_unavailable(tmp_path: Path) -> None:
    api = ClusterApi()
    api.logs = [httpx.Response(200, content=b"failed to try resolving: gone") for _ in range(50)]
    runtime = api.runtime(tmp_path, unavailable_after_s=0.3)

    with pytest.raises(RuntimeUnavailable, match="cannot be read: failed to try resolving: gone"):
        await texts(api, runtime)
