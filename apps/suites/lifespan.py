"""Suites in a server: their evaluation at the start, and the readiness probes."""

from __future__ import annotations

from typing import Final

from apps.health.api import Probe, ProbeResult
from apps.operations.api import LifespanPart
from apps.profiles.api import file_problem
from apps.suites import conf
from apps.suites.evaluation.library import library
from apps.suites.selectors import list_suites
from kernel.background import BackgroundThread

SERVER_PATIENCE_S: Final = 0.03


class SuitesPart(LifespanPart):
    """Evaluates every suite on threads of the library, so that the first list has every topology.

    From then on, no list of this process waits for a slow suite.
    """

    async def start(self) -> None:
        library.patience_s = SERVER_PATIENCE_S
        BackgroundThread("suites-at-start", library.evaluated_suites).start()

    async def stop(self) -> None:
        library.close()


def launchable_suites() -> ProbeResult:
    """Report ready when at least one suite can be launched (reference: control-plane 19)."""
    suites = list_suites()
    launchable = sum(1 for suite in suites if suite["launchable"])
    return ProbeResult(
        ready=launchable > 0, detail=f"{launchable} of {len(suites)} suites can be launched"
    )


def profiles() -> ProbeResult:
    """Report ready when all profiles, of files and stored, can be read and their file is valid.

    An invalid profile affects only the launches of its suite; `detail` counts them.
    """
    try:
        list(conf.suites_dir().iterdir())
    except OSError as error:
        detail = f"the folder of the suites cannot be read: {error.strerror}"
        return ProbeResult(ready=False, detail=detail)
    if problem := file_problem():
        return ProbeResult(ready=False, detail=problem)
    found = [profile for suite in library.suites() for profile in suite.profiles]
    broken = sum(profile.problem is not None for profile in found)
    detail = f"{len(found)} profiles" + (f", {broken} of them invalid" if broken else "")
    return ProbeResult(ready=True, detail=detail)


LAUNCHABLE_SUITES = Probe(name="launchable-suites", required=True, check=launchable_suites)
PROFILES = Probe(name="profiles", required=True, check=profiles)
