"""Readiness of suites: at least one can be launched (reference: control-plane 19)."""

from __future__ import annotations

from typing import Final

from apps.suites.selectors import list_suites
from apps.system.api import Probe, ProbeResult


def launchable_suites() -> ProbeResult:
    suites = list_suites()
    launchable = sum(1 for suite in suites if suite["launchable"])
    return ProbeResult(
        ready=launchable > 0, detail=f"{launchable} of {len(suites)} suites can be launched"
    )


LAUNCHABLE_SUITES: Final = Probe(name="launchable-suites", required=True, check=launchable_suites)
