"""The reports of one repeat, in process: they go into its row, its log and its artifacts.

(reference: control-plane 11.8)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

from apps.executions import api as executions
from apps.streams.api import then_disconnect
from apps.workers.control_plane.in_process import translate_errors
from kernel.agent_protocol import (
    ArtifactUpload,
    Completion,
    Job,
    JobDirective,
    LogChunk,
    StateReport,
)

T = TypeVar("T")


class RepeatReports:
    """The port `Reports` for the one repeat of a claim, on a thread of its own."""

    in_order: ClassVar[bool] = True  # one thread, which takes the calls in order

    def __init__(self, claim: executions.RepeatClaim) -> None:
        self._claim = claim
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="repeat")

    async def prepare(self) -> executions.PreparedRepeat | None:
        """Return what to run, None if the repeat has ended already."""
        return await self._call(lambda: executions.prepare_repeat(self._claim))

    async def next_repeat(self) -> executions.PreparedRepeat | None:
        """Return what to make ready for the same once more, None if there is nothing to expect."""
        return await self._call(lambda: executions.next_repeat(self._claim))

    async def report(self, report: StateReport) -> JobDirective:
        return await self._call(lambda: executions.record_repeat_state(self._claim, report))

    async def send(self, chunk: LogChunk) -> JobDirective:
        return await self._call(lambda: executions.record_repeat_lines(self._claim, chunk))

    async def complete(self, completion: Completion) -> None:
        await self._call(lambda: executions.complete_repeat(self._claim, completion))

    async def content(self, job: Job) -> bytes:
        del job
        return await self._call(lambda: executions.source_files(self._claim))

    async def store(self, job: Job, upload: ArtifactUpload) -> None:
        del job
        await self._call(lambda: executions.store_repeat_artifact(self._claim, upload))

    async def fail(self, detail: str) -> None:
        """Fail the repeat, unless it has ended."""
        await self._call(lambda: executions.fail_repeat(self._claim, detail))

    def close(self) -> None:
        """Release the thread and its connection to the store."""
        self._thread.submit(then_disconnect, lambda: None)
        self._thread.shutdown(wait=False)

    async def _call(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, translate_errors, work)
