"""Renewing leases on a thread of its own, which no step can starve.

(reference: control-plane 15.2)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from kernel.background import BackgroundThread
from worker.domain.control_plane import (
    RENEWALS,
    ControlPlane,
    ControlPlaneError,
    Job,
    JobDirective,
)
from worker.domain.runtime import UnitUsage

log = logging.getLogger("partita.workers")
LONGEST_PAUSE_S: Final = 2.0  # a lease that is not renewed is lost
_KILL_WITHIN_GRACE: Final = 2 / 3  # a lease of 30 s and as much grace: 50 s without renewal
_TRIES: Final = 3  # renewals that must fail, one after another, before anything is given up
_AGAIN_S: Final = 0.5  # between these, once a lease is overdue


def now_s() -> float:
    """Goes on while the host sleeps, unlike `time.monotonic` on Linux."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class LeaseKeeper:
    """Tells of each answer and of what came too late; all are called on this thread.

    `usage(job)`: what goes along with its renewal; it must not wait for anything.
    `on_orders(job, orders)`: None for a lease that is lost. `on_expired(job)`: not renewed for so
    long that another supervisor may have it.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        usage: Callable[[Job], UnitUsage | None],
        on_directive: Callable[[Job, JobDirective | None], None],
        on_expired: Callable[[Job], None],
        lease_s: float = 30.0,
    ) -> None:
        self._control_plane = control_plane
        self._usage = usage
        self._on_orders = on_directive
        self._on_expired = on_expired
        self._lease_s = lease_s
        self.grace_s: float | None = None  # what the control plane said; else as long as a lease
        self._renewed_at: dict[Job, float] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._failures = 0  # of renewals, one after another
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
            self._wake.set()

    def release(self, job: Job) -> None:
        with self._lock:
            self._renewed_at.pop(job, None)

    def renew_soon(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(_AGAIN_S if self._overdue() else self._lease_s / RENEWALS)
            self._wake.clear()
            self.expire()
            if self._held() and not self._stopping.is_set():
                self._renew()
            self.expire()

    def expire(self) -> None:
        """Give up what the control plane did not renew for too long, though it was asked.

        A process that stood still asks first: what nobody took meanwhile is still its own.
        """
        if self._failures < _TRIES:
            return
        for job in self._overdue():
            self.release(job)
            self._on_expired(job)

    def _overdue(self) -> list[Job]:
        grace_s = self._lease_s if self.grace_s is None else self.grace_s
        limit = now_s() - self._lease_s - grace_s * _KILL_WITHIN_GRACE
        return [job for job in self._held() if self._renewed_at.get(job, limit) < limit]

    def _renew(self) -> None:
        jobs, asked_at = self._held(), now_s()
        try:
            answers = self._control_plane.renew(jobs, self._usages(jobs))
        except ControlPlaneError as error:
            self._failures += 1
            log.warning("leases of %d jobs are not renewed: %s", len(jobs), error)
            return
        self._failures = 0
        for job, directive in zip(jobs, answers, strict=True):
            self._note(job, directive, asked_at)
            self._on_orders(job, directive)

    def _usages(self, jobs: Sequence[Job]) -> dict[Job, UnitUsage]:
        known = ((job, self._usage(job)) for job in jobs)
        return {job: usage for job, usage in known if usage}

    def _note(self, job: Job, directive: JobDirective | None, asked_at: float) -> None:
        with self._lock:
            if directive is None:
                self._renewed_at.pop(job, None)
            elif job in self._renewed_at:
                self._renewed_at[job] = asked_at
        if directive is not None and directive.lease_grace_s is not None:
            self.grace_s = directive.lease_grace_s

    def _held(self) -> list[Job]:
        with self._lock:
            return list(self._renewed_at)
