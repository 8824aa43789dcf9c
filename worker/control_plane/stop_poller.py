"""A thread that polls for jobs of a worker that are to stop.

Leases are renewed only every third of their duration, which delays a cancel too long. A cancel or a
teardown stops all jobs of a run, so one request per run is enough.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from kernel.agent_protocol import Job, JobDirective
from kernel.background import PeriodicThread
from worker.domain.control_plane import ControlPlaneError

log = logging.getLogger("partita.workers")


class StopPoller:
    """Calls `wake()` when one of `jobs()` is to stop or has lost its lease."""

    EACH_S = 2.0

    def __init__(
        self,
        jobs: Callable[[], Collection[Job]],
        ask: Callable[[Job], JobDirective | None],
        wake: Callable[[], None],
    ) -> None:
        self._jobs = jobs
        self._ask = ask
        self._wake = wake
        self._stopping = threading.Event()
        self._thread = PeriodicThread(
            "orders", self._poll, lambda: self._stopping.wait(self.EACH_S), ended=self._stopping
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(5)

    def _poll(self) -> None:
        if any(self._is_to_stop(job) for job in self._jobs()):
            self._wake()

    def _is_to_stop(self, job: Job) -> bool:
        try:
            directive = self._ask(job)
        except ControlPlaneError as error:  # the thread of the leases logs it as a warning
            log.debug("the directive for %s is unknown: %s", job.job_id, error)
            return False
        return directive is None or bool(directive.cancel_reason)
