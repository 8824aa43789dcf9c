"""Lease renewal on a thread of its own, which no step can starve.

(reference: control-plane 15.2)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from kernel.agent_protocol import Job, JobDirective, ProbeProgress, StepUsage
from kernel.background import BackgroundThread, one_cycle, report_error
from worker.domain.control_plane import RENEWALS, ControlPlane, ControlPlaneError

log = logging.getLogger("partita.workers")
LONGEST_PAUSE_S: Final = 2.0  # a lease that is not renewed is lost
_KILL_WITHIN_GRACE: Final = 2 / 3  # a lease of 30 s and as much grace: 50 s without renewal
_TRIES: Final = 3  # consecutive renewals that must fail before a job is given up
_AGAIN_S: Final = 0.5  # between these, once a lease is overdue


def now_s() -> float:
    """Return a monotonic time that includes sleep of the host, unlike `time.monotonic`."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class LeaseKeeper:
    """Renews the leases of held jobs; calls its callbacks on its own thread.

    `usage(job)` and `probe(job)`: what to send along; they must not block.
    `on_directive(job, directive)`: each answer, None for a lost lease. `on_expired(job)`: the lease
    was not renewed for so long that another supervisor may have the job.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        usage: Callable[[Job], StepUsage | None],
        probe: Callable[[Job], ProbeProgress | None] = lambda _job: None,
        on_directive: Callable[[Job, JobDirective | None], None],
        on_expired: Callable[[Job], None],
        lease_s: float = 30.0,
    ) -> None:
        self._control_plane = control_plane
        self._usage = usage
        self._probe = probe
        self._on_directive = on_directive
        self._on_expired = on_expired
        self._lease_s = lease_s
        self.grace_s: float | None = None  # None: as long as a lease
        self._renewed_at: dict[Job, float] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._all_soon = False
        self._to_report: set[Job] = set()  # whose probes have something to say
        self._all_renewed_at = now_s()
        self._failures = 0  # consecutive failed renewals
        self._stopping = threading.Event()
        self._thread = BackgroundThread(
            "leases", self._run, ended=self._stopping, longest_pause_s=LONGEST_PAUSE_S
        )

    def start(self) -> None:
        self._thread.start()

    def hold(self, job: Job, *, lease_s: float) -> None:
        with self._lock:
            shorter = lease_s < self._lease_s
            self._lease_s = lease_s
            self._renewed_at[job] = now_s()
        if shorter:  # than what the thread waits for now
            self.renew_soon()

    def release(self, job: Job) -> None:
        with self._lock:
            self._renewed_at.pop(job, None)

    def renew_soon(self) -> None:
        self._all_soon = True
        self._wake.set()

    def report_soon(self, job: Job) -> None:
        """Renew this lease now, so that the answer of the job's probe travels with it."""
        with self._lock:
            self._to_report.add(job)
        self._wake.set()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopping.is_set():
            pause_s = _AGAIN_S if self._overdue() else self._until_next_s()
            is_woken = self._wake.wait(pause_s)
            self._wake.clear()
            self.expire()
            jobs = self._due(everything=not is_woken or not pause_s)
            if jobs and not self._stopping.is_set():
                with one_cycle():
                    self._renew(jobs)
            self.expire()

    def _until_next_s(self) -> float:
        """Return the time until all leases are renewed again."""
        return max(0.0, self._all_renewed_at + self._lease_s / RENEWALS - now_s())

    def _due(self, *, everything: bool) -> list[Job]:
        with self._lock:
            reported, self._to_report = self._to_report, set()
            held = list(self._renewed_at)
        if everything or self._all_soon:
            self._all_soon, self._all_renewed_at = False, now_s()
            return held
        return [job for job in held if job in reported]

    def expire(self) -> None:
        """Give up the jobs whose renewal failed for too long.

        After a pause of this process, a renewal is tried first: it may still have the jobs.
        """
        if self._failures < _TRIES:
            return
        for job in self._overdue():
            self.release(job)
            self._on_expired(job)

    def _overdue(self) -> list[Job]:
        grace_s = self._lease_s if self.grace_s is None else self.grace_s
        limit = now_s() - self._lease_s - grace_s * _KILL_WITHIN_GRACE
        return [job for job in self._held_jobs() if self._renewed_at.get(job, limit) < limit]

    def _renew(self, jobs: Sequence[Job]) -> None:
        asked_at = now_s()
        try:
            usages = ((job, self._usage(job)) for job in jobs)
            probes = ((job, self._probe(job)) for job in jobs)
            answers = self._control_plane.renew(
                jobs,
                {job: used for job, used in usages if used},
                {job: probe for job, probe in probes if probe},
            )
        except ControlPlaneError as error:
            self._failures += 1
            log.warning("the leases of %d jobs cannot be renewed: %s", len(jobs), error)
            report_error(optional=True)
            return
        self._failures = 0
        for job, directive in zip(jobs, answers, strict=True):
            self._note(job, directive, asked_at)
            self._on_directive(job, directive)

    def _note(self, job: Job, directive: JobDirective | None, asked_at: float) -> None:
        with self._lock:
            if directive is None:
                self._renewed_at.pop(job, None)
            elif job in self._renewed_at:
                self._renewed_at[job] = asked_at
        if directive is not None and directive.lease_grace_s is not None:
            self.grace_s = directive.lease_grace_s

    def _held_jobs(self) -> list[Job]:
        with self._lock:
            return list(self._renewed_at)
