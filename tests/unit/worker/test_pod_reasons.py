"""Each way in which a pod does not start or does not end by itself: one code and one sentence."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apps.executions.domain.plan import PlanNode
from apps.executions.domain.retry_rules import may_retry, reason_of
from apps.executions.domain.states import StepReason
from worker.runtimes.kubernetes import reasons
from worker.runtimes.kubernetes.objects import ClusterEvent, Pod

OOM: Any = {"exitCode": 137, "reason": "OOMKilled"}


def pod(**status: Any) -> Pod:
    body = {
        "metadata": {"name": "partita-run-1-api-a1"},
        "spec": {"nodeName": "node-7", "containers": [{"name": "step", "image": "shop/api:2"}]},
        "status": status,
    }
    return msgspec.convert(body, Pod)


def condition(type_: str, status: str, reason: str, message: str) -> dict[str, Any]:
    made = {"type": type_, "status": status, "reason": reason, "message": message}
    return {"phase": "Pending", "conditions": [made]}


def waiting(reason: str, message: str = "", name: str = "step") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": name, "state": state}]}


def disruption(reason: str, message: str = "") -> dict[str, Any]:
    return condition("DisruptionTarget", "True", reason, message)


@pytest.mark.parametrize(
    ("status", "reason", "is_final", "sentence"),
    [
        (
            condition(
                "PodScheduled",
                "False",
                "Unschedulable",
                "0/1 nodes are available: 1 Insufficient cpu.",
            ),
            "unschedulable",
            False,
            "no node takes the step: 0/1 nodes are available: 1 Insufficient cpu",
        ),
        (
            waiting("ErrImagePull", "rpc error: code = NotFound desc = shop/api:2: not found"),
            "image_missing",
            True,
            "image shop/api:2 could not be pulled: shop/api:2: not found",
        ),
        (
            waiting("ErrImagePull", "dial tcp: i/o timeout"),
            "image_missing",
            False,
            "image shop/api:2 could not be pulled: dial tcp: i/o timeout",
        ),
        (
            waiting("ImagePullBackOff", "Back-off pulling image"),
            "image_missing",
            True,
            "image shop/api:2 could not be pulled: Back-off pulling image",
        ),
        (
            waiting("CreateContainerConfigError", 'secret "x" not found'),
            "container_config",
            False,
            'the container cannot be created: secret "x" not found',
        ),
        (
            {
                "initContainerStatuses": [
                    {
                        "name": "files",
                        "state": {"terminated": {"exitCode": 1, "message": "no space"}},
                    }
                ]
            },
            "init_failed",
            True,
            "the directories of the step could not be filled: no space",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."},
            "evicted",
            True,
            "the pod was evicted from node node-7: The node was low on memory",
        ),
        (
            disruption("EvictionByEvictionAPI", "Eviction API: evicting"),
            "evicted",
            True,
            "the pod was evicted from node node-7: Eviction API: evicting",
        ),
        (
            disruption("PreemptionByScheduler", "preempting"),
            "preempted",
            True,
            "a pod of higher priority took the place of the step: preempting",
        ),
        (
            disruption("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
            "node_lost",
            True,
            "the pod lost its node node-7: Taint manager: deleting due to NoExecute taint",
        ),
        (
            {"phase": "Failed", "reason": "DeadlineExceeded"},
            "timeout",
            True,
            "the cluster's own deadline for the pod has passed",
        ),
        (
            {"phase": "Failed", "reason": "OutOfmemory", "message": "Pod was rejected"},
            "unschedulable",
            True,
            "node node-7 refused the pod: Pod was rejected",
        ),
    ],
)
def test_a_pod_that_does_not_run_says_why(
    status: dict[str, Any], reason: str, is_final: bool, sentence: str
) -> None:
    problem = reasons.pending_problem(pod(**status))

    assert problem == reasons.PodProblem(reason=reason, sentence=sentence, is_final=is_final)
    assert reason_of(reason) == reason  # the control plane knows the code


@pytest.mark.parametrize(
    ("message", "reason", "is_final", "sentence"),
    [
        (
            'pods "x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=8',
            "quota_exceeded",
            False,
            'the namespace\'s quota is used up: pods "x" is forbidden: exceeded quota: team, '
            "requested: pods=1, used: pods=8",
        ),
        (
            'admission webhook "policy.example" denied the request: images must have a digest',
            "admission_refused",
            True,
            "the admission webhook policy.example refused the pod: images must have a digest",
        ),
        (
            'pods "x" is forbidden: violates PodSecurity "restricted:latest"',
            "admission_refused",
            True,
            'the cluster refused the pod: pods "x" is forbidden: violates PodSecurity '
            '"restricted:latest"',
        ),
    ],
)
def test_a_pod_that_is_refused_says_why(
    message: str, reason: str, is_final: bool, sentence: str
) -> None:
    problem = reasons.refusal_problem(message)

    assert problem == reasons.PodProblem(reason=reason, sentence=sentence, is_final=is_final)


def test_volumes_that_cannot_be_mounted_are_told_by_the_events() -> None:
    starting = pod(**waiting("ContainerCreating"))
    events = [
        ClusterEvent(type="Normal", reason="Scheduled"),
        ClusterEvent(type="Warning", reason="FailedMount", message='claim "shared" not found'),
    ]

    problem = reasons.pending_problem(starting, events)

    assert problem is not None
    assert problem.sentence == 'the pod cannot be set up: claim "shared" not found'


def test_a_pod_that_starts_has_no_problem() -> None:
    assert reasons.pending_problem(pod(**waiting("PodInitializing"))) is None
    running = {"containerStatuses": [{"name": "step", "state": {"running": {}}}]}
    assert reasons.pending_problem(pod(**running)) is None


def test_a_step_out_of_memory_is_no_loss_of_its_pod() -> None:
    ended = pod(phase="Running", containerStatuses=[{"name": "step", "state": {"terminated": OOM}}])

    assert reasons.lost_problem(ended) is None


def test_what_ended_a_running_step_from_outside_may_be_retried_and_a_refusal_may_not() -> None:
    node = PlanNode(id="a", retries=1)

    may = {each for each in StepReason if may_retry(node, each, retries_used=0)}

    assert {"evicted", "preempted", "node_lost"} <= may
    assert not {"unschedulable", "quota_exceeded", "admission_refused", "container_config"} & may
