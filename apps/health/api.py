"""Health: probes of subsystems, and the readiness that they add up to."""

from __future__ import annotations

from apps.health.domain.probes import Probe, ProbeResult, probes
