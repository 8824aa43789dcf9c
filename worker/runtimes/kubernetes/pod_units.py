"""Pods as the units that they are: a pod that waits at its gate is none yet."""

from __future__ import annotations

from worker.domain import ownership
from worker.domain.runtime import Unit, UnitState
from worker.runtimes.kubernetes import reasons
from worker.runtimes.kubernetes.objects import KEEPER, Pod
from worker.runtimes.kubernetes.reasons import StartDropped
from worker.runtimes.kubernetes.resources import started_at


def is_gated(pod: Pod) -> bool:
    """Return whether the pod was started ahead and has not been released."""
    notes = pod.metadata.annotations
    return ownership.GATE in notes and ownership.RELEASED_AT not in notes


def is_void(pod: Pod) -> bool:
    """Return whether the pod waits at its gate, or has ended there: its program has not begun."""
    return is_gated(pod) or reasons.has_ended_at_gate(pod)


def has_never_begun(pod: Pod) -> bool:
    """Return whether nothing of the step has run, nor will: another pod may take the place."""
    dropped = reasons.dropped_start(pod, may_run_again=False)
    return is_void(pod) or isinstance(dropped, StartDropped)


def has_started(pod: Pod) -> bool:
    return bool(pod.step.running or pod.step.terminated)


def is_up(pod: Pod) -> bool:
    """Return whether the program runs with its keeper, at a known address, or has ended."""
    if pod.step.running and pod.state_of(KEEPER).waiting:
        return False
    return has_started(pod) and bool(pod.status.pod_ip or pod.step.terminated)


def unit_of(pod: Pod) -> Unit:
    step = pod.step
    state = UnitState.RUNNING if step.running else UnitState.CREATED
    if step.terminated:
        state = UnitState.ENDED
    return Unit(
        id=pod.name,
        name=pod.name,
        state=state,
        labels=pod.metadata.annotations,
        started_at=started_at(pod),
    )
