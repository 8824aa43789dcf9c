"""Attempts, names of events, layers of env, chains of causes, messages."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.executions.domain.events import cause_chain, event_id, in_words
from apps.executions.domain.plan import PlanNode, plan_of
from apps.executions.domain.retry_rules import may_requeue, may_retry, pause_before_retry, reason_of
from apps.executions.domain.states import StepReason
from apps.executions.domain.steps import BuiltIns, fill_in, layered_env
from tests.apps.executions.runs import node, topology


def test_pauses_double_up_to_thirty_seconds():
    pauses = [pause_before_retry(used).total_seconds() for used in range(8)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert pause_before_retry(10_000) == timedelta(seconds=30)


@pytest.mark.parametrize("reason", StepReason)
def test_infrastructure_cancel_and_missing_surfaces_are_never_retried(reason):
    given_up = {
        StepReason.MOCK_SURFACE_MISSING,
        StepReason.RUNTIME_UNAVAILABLE,
        StepReason.AGENT_UNAVAILABLE,
        StepReason.AGENT_LOST,
        StepReason.UNSCHEDULABLE,
        StepReason.QUOTA_EXCEEDED,
        StepReason.ADMISSION_REFUSED,
        StepReason.CONTAINER_CONFIG,
        StepReason.INIT_FAILED,
        StepReason.CANCELED,
    }
    tried = may_retry(PlanNode(id="a", retries=3), reason, retries_used=2)
    assert tried is (reason not in given_up)


def test_a_missing_image_is_retried_only_where_one_is_named():
    bare = PlanNode(id="a", retries=1, has_image=False)
    named = PlanNode(id="a", retries=1, has_image=True)
    assert not may_retry(bare, StepReason.IMAGE_MISSING, retries_used=0)
    assert may_retry(named, StepReason.IMAGE_MISSING, retries_used=0)


def test_retries_are_used_up():
    assert not may_retry(PlanNode(id="a", retries=1), StepReason.TIMEOUT, retries_used=1)


def test_only_services_and_idempotent_steps_go_on_elsewhere_and_twice_at_most():
    """Invariant 9: a test run again after a lost worker without the user asking."""
    assert may_requeue(PlanNode(id="a", may_run_again=True), requeues=1)
    assert not may_requeue(PlanNode(id="a", may_run_again=True), requeues=2)
    assert not may_requeue(PlanNode(id="a"), requeues=0)


def test_unknown_reasons_are_internal_errors():
    assert reason_of("oom_killed") is StepReason.OOM_KILLED
    assert reason_of("gremlins") is StepReason.INTERNAL_ERROR


def test_event_ids_name_attempt_and_repetition():
    assert event_id("api", "running") == "api-running"
    assert event_id("api", "running", attempt=1) == "api-running"
    assert event_id("api", "running", attempt=3) == "api-running-3"
    assert event_id("api", "adopted", attempt=3, nth=2) == "api-adopted-3.2"


def test_env_layers_go_from_the_profile_to_the_built_ins():
    facts = {"id": "pay/api", "name": "api", "env": {"A": "node", "B": "node"}}
    env = layered_env(
        {**facts, "runtimeEnv": {"B": "runtime"}},
        profile={
            "env": {"A": "profile", "P": "profile", "O": "profile"},
            "services": {"api": {"C": "by name", "S": "by name"}, "pay/api": {"C": "by id"}},
        },
        overrides={"O": "override"},
        secrets={"S": "secret"},
        built_ins={"PARTITA_STEP_ID": "pay/api"},
    )
    assert env == {
        "A": "node",
        "B": "runtime",
        "C": "by id",
        "O": "override",
        "P": "profile",
        "S": "secret",
        "PARTITA_STEP_ID": "pay/api",
    }


def test_every_prefix_gets_every_built_in_variable():
    built_ins = BuiltIns(
        execution_id="run-1",
        suite_id="shop",
        source_suite_id="shop",
        profile="ci.yaml",
        step_id="api",
        step_name="Api",
        step_kind="service",
        attempt=2,
        mock_base_url="http://mocks",
    )
    variables = built_ins.variables(["PARTITA", "CI"])
    assert variables["PARTITA_ATTEMPT"] == variables["CI_ATTEMPT"] == "2"
    assert variables["CI_WORKSPACE_DIR"] == "/partita/workspace"
    assert variables["CI_STEP_DIR"] == "/partita/step"
    assert len(variables) == 24


def test_a_cause_leads_to_the_root():
    root = cause_chain("db", reason="exit_nonzero", exit_code=3, cause=[])
    chain = cause_chain("api", reason="dependency_failed", exit_code=None, cause=root)
    assert chain == [
        {"stepId": "api", "reason": "dependency_failed"},
        {"stepId": "db", "reason": "exit_nonzero", "exitCode": 3},
    ]
    assert in_words(chain) == "api: dependency_failed, after db: exit_nonzero (exit code 3)"


def test_messages_are_filled_in_and_unknown_names_stay():
    text = fill_in(
        "{{suite}}: {{healthy}}/{{total}} in {{ env.REGION }}, {{env.NONE}} {{x}}",
        env={"REGION": "eu"},
        facts={"suite": "Shop", "healthy": "2", "total": "3"},
    )
    assert text == "Shop: 2/3 in eu, {{env.NONE}} {{x}}"


def test_a_trigger_is_no_hard_dependency_too():
    nodes = topology(node("a"), node("b", after=["a"], on_failure=["a"]))
    assert (plan_of(nodes).nodes[1].needs, plan_of(nodes).nodes[1].triggers) == ((), (0,))
