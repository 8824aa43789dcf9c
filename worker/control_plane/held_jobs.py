"""The jobs that a worker holds: their specs, which its next process adopts, and orders to stop.

The control plane sends a spec once, in the answer to a claim (reference: control-plane 15.2). It
contains secrets, so it is encrypted on disk with a key derived from the shared secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken

from kernel.agent_protocol import Job, JobDirective, job_of
from kernel.background import PeriodicThread, report_error
from worker.domain.control_plane import ControlPlaneError

log = logging.getLogger("partita.workers")
REMEMBERED_S: Final = 3600.0
_LABEL: Final = b"partita:held-jobs"


class HeldJobs:
    """Stores the specs; thread-safe."""

    def __init__(self, folder: Path, secret: str) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        key = hmac.digest(secret.encode(), _LABEL, "sha256")
        self._cipher = Fernet(base64.urlsafe_b64encode(key))
        self._lock = threading.Lock()
        self._specs: dict[Job, Mapping[str, Any]] = {}
        self._released: dict[str, tuple[str, float]] = {}  # job id → run, when
        for path in folder.glob("*.job"):
            self._load(path)

    def _load(self, path: Path) -> None:
        try:
            spec = json.loads(self._cipher.decrypt(path.read_bytes()))
        except (InvalidToken, ValueError):
            log.warning("%s cannot be decrypted with this AGENT_SHARED_SECRET: removed", path.name)
            path.unlink(missing_ok=True)
        else:
            self._specs[job_of(spec)] = spec

    def hold(self, spec: Mapping[str, Any]) -> None:
        """Write the spec to disk atomically."""
        job = job_of(spec)
        path = self._path(job)
        scratch = path.with_suffix(".new")
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._cipher.encrypt(json.dumps(spec).encode()))
        scratch.replace(path)
        with self._lock:
            self._specs[job] = spec

    def release(self, job: Job) -> None:
        now = time.monotonic()
        with self._lock:
            spec = self._specs.pop(job, None)
            old = [key for key, (_, at) in self._released.items() if at < now - REMEMBERED_S]
            for key in old:
                del self._released[key]
            if spec:
                self._released[job.job_id] = (spec["executionId"], now)
        self._path(job).unlink(missing_ok=True)

    def release_all_but(self, kept: Collection[Job]) -> None:
        for job in self.jobs:
            if job not in kept:
                self.release(job)

    def spec(self, job: Job) -> Mapping[str, Any] | None:
        return self._specs.get(job)

    @property
    def jobs(self) -> tuple[Job, ...]:
        with self._lock:
            return tuple(self._specs)

    @property
    def runs(self) -> frozenset[str]:
        with self._lock:
            return frozenset(spec["executionId"] for spec in self._specs.values())

    def run_of(self, job_id: str) -> str:
        """Return the run of a job that is held or was within the last hour; else empty."""
        with self._lock:
            for job, spec in self._specs.items():
                if job.job_id == job_id:
                    return str(spec["executionId"])
            return self._released.get(job_id, ("", 0.0))[0]

    def one_per_run(self) -> tuple[Job, ...]:
        """Return one job of each run, preferably a service, because it lives longest."""
        chosen: dict[str, Job] = {}
        with self._lock:
            for job, spec in self._specs.items():
                run_id = spec["executionId"]
                if run_id not in chosen or spec["node"].get("kind") == "service":
                    chosen[run_id] = job
        return tuple(chosen.values())

    def _path(self, job: Job) -> Path:
        name = hashlib.sha256(f"{job.job_id} {job.attempt}".encode()).hexdigest()[:32]
        return self._folder / f"{name}.job"


class StopPoller:
    """A thread that calls `wake()` when one of `jobs()` is to stop or has lost its lease.

    Leases are renewed only every third of their duration, which delays a cancel too long. A cancel
    or a teardown stops all jobs of a run, so one request per run is enough.
    """

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
            report_error(optional=True)
            return False
        return directive is None or bool(directive.cancel_reason)
