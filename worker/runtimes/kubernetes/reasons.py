"""Why a pod does not start, or did not end by itself: one code and one sentence each.

(reference: control-plane 14.3)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from worker.domain import ownership
from worker.domain.gate_program import NOT_RELEASED
from worker.domain.runtime import CANNOT_EXECUTE, RuntimeFailure
from worker.runtimes.kubernetes.objects import (
    KEEPER,
    STEP_CONTAINER,
    ClusterEvent,
    ContainerStatus,
    Pod,
    PodCondition,
    Terminated,
)
from worker.runtimes.kubernetes.pod_scripts import GATE_ENDED

_IMAGE_FINAL: Final = frozenset(
    {"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
_IMAGE_WORDS: Final = ("not found", "unauthorized", "denied", "forbidden", "does not exist")
_SET_UP: Final = frozenset({"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"})
_LOST: Final = (  # reasons of a pod or of its DisruptionTarget, the step's reason, the sentence
    (
        frozenset({"PreemptionByScheduler", "Preempting"}),
        "preempted",
        "a pod of higher priority took the place of the step",
    ),
    (
        frozenset({"Evicted", "EvictionByEvictionAPI", "TerminationByKubelet"}),
        "evicted",
        "the pod was evicted from node {node}",
    ),
    (
        frozenset({"NodeLost", "NodeShutdown", "DeletionByTaintManager", "DeletionByPodGC"}),
        "node_lost",
        "the pod lost its node {node}",
    ),
    (
        frozenset({"DeadlineExceeded"}),
        "timeout",
        "the cluster's own deadline for the pod has passed",
    ),
    (
        frozenset({"OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity"}),
        "unschedulable",
        "node {node} refused the pod",
    ),
)
_CONFIG: Final = frozenset({"CreateContainerConfigError", "CreateContainerError"})
_START: Final = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})
_DROPPED: Final = (  # what containerd says when its caller, the kubelet, goes away or gives up
    "context canceled",
    "context deadline exceeded",
    "ttrpc: closed",
    "transport is closing",
)
_NOT_CREATED: Final = "failed to create"
_OF_GATE: Final = (NOT_RELEASED, CANNOT_EXECUTE)
_QUOTA: Final = "exceeded quota"
_WEBHOOK: Final = re.compile(r'admission webhook "([^"]+)" denied the request:? ?(.*)', re.DOTALL)
_MESSAGE_LIMIT: Final = 600
_CAUSE: Final = re.compile(r"rpc error: code = \w+ desc = ")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProblem:
    """`reason`: of the step (reference: control-plane 11.4). `is_final`: waiting does not help."""

    reason: str
    sentence: str
    is_final: bool = True


KEEPER_LOST: Final = PodProblem(
    reason="node_lost", sentence="the keeper of the pod ended before the step's files were taken"
)


class PodFailed(RuntimeFailure):
    """The pod could not start, or something else than the step ended it."""

    def __init__(self, problem: PodProblem) -> None:
        super().__init__(problem.sentence)
        self.reason = problem.reason


class StartDropped(PodFailed):
    """The node dropped the start of a pod, and nothing keeps it from being started again."""

    def __init__(self, problem: PodProblem, pod: Pod) -> None:
        super().__init__(problem)
        self.problem = problem
        self.pod = pod


def pending_problem(pod: Pod, events: Sequence[ClusterEvent] = ()) -> PodProblem | None:
    """Return why the step's container has not started, None while nothing is wrong."""
    scheduled = _condition(pod, "PodScheduled")
    if scheduled and scheduled.status == "False":
        words = _one_line(scheduled.message) or "no node takes the pod"
        sentence = f"no node takes the step: {words}"
        return PodProblem(reason="unschedulable", sentence=sentence, is_final=False)
    return (
        lost_problem(pod)
        or _init_problem(pod)
        or _container_problem(pod)
        or _set_up_problem(events)
    )


def _init_problem(pod: Pod) -> PodProblem | None:
    for status in pod.status.init_container_statuses:
        if (ended := status.state.terminated) and ended.exit_code:
            words = _one_line(ended.message) or f"exit code {ended.exit_code}"
            sentence = f"the directories of the step could not be filled: {words}"
            return PodProblem(reason="init_failed", sentence=sentence)
    return None


def _container_problem(pod: Pod) -> PodProblem | None:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next(filter(None, (_waiting_problem(pod, each) for each in statuses)), None)


def _waiting_problem(pod: Pod, status: ContainerStatus) -> PodProblem | None:
    waiting = status.state.waiting
    if waiting is None:
        return None
    words = _one_line(waiting.message)
    if waiting.reason in _IMAGE_FINAL or waiting.reason == "ErrImagePull":
        is_final = waiting.reason in _IMAGE_FINAL or any(each in words for each in _IMAGE_WORDS)
        image = pod.image if status.name == STEP_CONTAINER else f"of the helper ({status.name})"
        sentence = f"image {image} could not be pulled: {words or waiting.reason}"
        return PodProblem(reason="image_missing", sentence=sentence, is_final=is_final)
    if waiting.reason in _CONFIG:
        sentence = f"the container cannot be created: {words or waiting.reason}"
        return PodProblem(reason="container_config", sentence=sentence, is_final=False)
    return None


def _set_up_problem(events: Sequence[ClusterEvent]) -> PodProblem | None:
    for event in reversed(events):
        if event.type == "Warning" and event.reason in _SET_UP:
            sentence = f"the pod cannot be set up: {_one_line(event.message)}"
            return PodProblem(reason="container_config", sentence=sentence, is_final=False)
    return None


def start_failure(pod: Pod) -> Terminated | None:
    """Return the end of a step whose program could not be started."""
    ended = pod.step.terminated
    return ended if ended and ended.reason in _START else None


def dropped_start(pod: Pod, *, may_run_again: bool) -> PodFailed | None:
    """Return the failure of a pod with a container whose start the node dropped.

    A kubelet that restarts does so. It is a StartDropped unless the program may have begun.
    """
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = status.state.terminated
        if not ended or ended.reason not in _START:
            continue
        if status.name == KEEPER and (pod.step.running or pod.keeper):
            continue  # another one takes its place, or has taken it
        if any(words in ended.message for words in _DROPPED):
            is_final = _may_have_begun(pod, status.name) and not may_run_again
            begun = ", which may have begun" if is_final else ""
            sentence = f"node {pod.spec.node_name or '?'} dropped the start of the step{begun}"
            sentence += _after(_one_line(ended.message))
            problem = PodProblem(reason="node_lost", sentence=sentence, is_final=is_final)
            return PodFailed(problem) if is_final else StartDropped(problem, pod)
    return None


def _may_have_begun(pod: Pod, dropped: str) -> bool:
    """Return whether the program may have begun in a pod in which this container did not start.

    The keeper starts after the step; once the step has ended, no other could take its files.
    """
    if dropped not in (STEP_CONTAINER, KEEPER):
        return False
    if ended := pod.step.terminated:
        return ended.reason not in _START or _NOT_CREATED not in ended.message
    return False


def has_ended_at_gate(pod: Pod) -> bool:
    """Return whether the gate ended without its program: a release did not reach it, if any."""
    ended = pod.step.terminated
    is_gate = ownership.GATE in pod.metadata.annotations
    return bool(is_gate and ended and ended.exit_code in _OF_GATE and GATE_ENDED in ended.message)


def lost_problem(pod: Pod) -> PodProblem | None:
    """Return what ended the pod from outside: not the step's own failure."""
    disruption = _condition(pod, "DisruptionTarget")
    causes = {pod.status.reason}
    words = pod.status.message
    if disruption and disruption.status == "True":
        causes.add(disruption.reason)
        words = words or disruption.message
    for known, reason, sentence in _LOST:
        if causes & known:
            return _loss_problem(reason, sentence.format(node=pod.spec.node_name or "?"), words)
    if pod.status.phase == "Failed" and not pod.status.container_statuses:
        return _loss_problem(
            "unschedulable", "the node refused the pod", words or pod.status.reason
        )
    return None


def _loss_problem(reason: str, sentence: str, detail: str) -> PodProblem:
    return PodProblem(reason=reason, sentence=f"{sentence}{_after(_one_line(detail))}")


def _after(words: str) -> str:
    return f": {words}" if words else ""


def deleted_problem(last: Pod | None) -> PodProblem:
    """Return why a pod is gone that nobody of ours removed; `last`: as it was last seen."""
    if last and (problem := lost_problem(last)):
        return problem
    sentence = "the pod of the step was deleted by someone else"
    return PodProblem(reason="evicted", sentence=sentence)


def refusal_problem(message: str) -> PodProblem:
    """Return why the API server did not accept a pod."""
    if _QUOTA in message:
        sentence = f"the namespace's quota is used up: {_one_line(message)}"
        return PodProblem(reason="quota_exceeded", sentence=sentence, is_final=False)
    if refused := _WEBHOOK.search(message):
        sentence = f"the admission webhook {refused[1]} refused the pod{_after(refused[2])}"
        return PodProblem(reason="admission_refused", sentence=_one_line(sentence))
    sentence = f"the cluster refused the pod: {_one_line(message)}"
    return PodProblem(reason="admission_refused", sentence=sentence)


def _condition(pod: Pod, type_: str) -> PodCondition | None:
    return next((each for each in pod.status.conditions if each.type == type_), None)


def _one_line(words: str) -> str:
    """Return the cluster's words on one line, without what says nothing."""
    text = " ".join(_CAUSE.sub("", words).split()).rstrip(".")
    return text if len(text) <= _MESSAGE_LIMIT else f"{text[:_MESSAGE_LIMIT]}…"
