"""`python -m bench.kubernetes_watcher`: watches pods as a runner does, and waits for each of them.

Answers each question with the pods it knows and what it has cost; see `bench.kubernetes_pods`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time

import msgspec
import psutil

from bench.kubernetes import open_cluster
from bench.stand import answer
from worker.runtimes.kubernetes.objects import Pod


class Question(msgspec.Struct):
    wait_for: list[str] = []  # names of pods, until whose end somebody waits
    forget: bool = False  # those that were waited for so far


async def main() -> None:
    process = psutil.Process()
    waits: set[asyncio.Task[Pod | None]] = set()
    names: list[str] = []
    async with open_cluster(os.environ["TEST_KUBECONFIG"]) as (_client, pods):
        answer(ready=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            question = msgspec.json.decode(line, type=Question)
            if question.forget:
                await _cancel(waits)
            if question.wait_for:
                names = question.wait_for
                waits |= {asyncio.create_task(pods.until(name, _has_ended)) for name in names}
            known = [pod for name in names if (pod := pods.get(name))]
            answer(
                known=len(known),
                running=sum(pod.status.phase == "Running" for pod in known),
                cpu_s=time.process_time(),
                memory=process.memory_info().rss,
                over=sum(task.done() for task in waits),
            )
        await _cancel(waits)


async def _cancel(waits: set[asyncio.Task[Pod | None]]) -> None:
    for task in waits:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*waits, return_exceptions=True)
    waits.clear()


def _has_ended(pod: Pod) -> bool:
    return pod.step.terminated is not None


if __name__ == "__main__":
    asyncio.run(main())
