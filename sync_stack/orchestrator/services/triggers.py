"""Tasks without a delivery: heals of the watcher, reconciles, and requests of operators."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernel.errors import known_names
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.events import BadPayload
from sync_stack.core.ledger import Ledger, TargetState
from sync_stack.core.tasks import TaskKind
from sync_stack.orchestrator.domain.identity import TargetKey, key_of
from sync_stack.orchestrator.domain.task_documents import HealBaseline, TaskRequest
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services.deliveries import DeliveryRefused
from sync_stack.orchestrator.services.execution.rule_scope import event_for
from sync_stack.orchestrator.services.task_creation import Created, NewTask, create_task

Publish = Callable[[Sequence[str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heal:
    """The target and the baseline that a caller compared with.

    `destination_id`, `repo` and `env` may be "": those of the only target that fits the rest.
    `commit`: the baseline to restore; "" asks for the head of `ref` ("": the target's own).
    `generation` 0: any. `rule` "": the only rule of the datasource.
    """

    datasource: str
    rule: str
    repo: str
    env: str
    destination_id: str
    idempotency_key: str
    commit: str
    platform: str = ""
    ref: str = ""
    generation: int = 0
    drift_id: str = ""
    correlation_id: str = ""
    traceparent: str = ""


def trigger_heal(heal: Heal, bundle: Bundle, publish: Publish) -> Created:
    """Create a heal, or a sync of a head. Raises DeliveryRefused, TooManyTasks.

    A heal ends `superseded` if its target is no longer as the caller saw it.
    """
    if not heal.idempotency_key:
        raise DeliveryRefused("INVALID_ARGUMENT", "idempotency_key is required")
    rule = _rule(bundle, heal)
    if not rule.self_heal:
        raise DeliveryRefused("FAILED_PRECONDITION", f"rule {rule.name!r} has no self_heal")
    key, applied = _target(rule, heal)
    heal = replace(heal, repo=key.repo, env=key.env, destination_id=key.destination_id)
    if not heal.commit:
        return _trigger_head(heal, applied, bundle, rule, publish)
    event = event_for(bundle, rule, heal.repo, applied.ref)
    baseline = HealBaseline(
        env=heal.env,
        destination_id=heal.destination_id,
        generation=heal.generation,
        ref=heal.ref,
        commit=heal.commit,
    )
    return create_task(
        NewTask(
            kind=TaskKind.HEAL,
            idempotency_key=heal.idempotency_key,
            platform=rule.platform,
            segment=rule.segment,
            request=TaskRequest(events=(event,), rules=(rule.name,), heal=baseline),
            tenant=rule.tenant,
            delivery_id=heal.drift_id,
            correlation_id=heal.correlation_id,
            bundle_digest=bundle.digest,
            traceparent=heal.traceparent,
        ),
        publish,
    )


def _trigger_head(
    heal: Heal, applied: TargetState, bundle: Bundle, rule: Rule, publish: Publish
) -> Created:
    if heal.generation not in (0, applied.generation):
        detail = f"the target is at generation {applied.generation}, not {heal.generation}"
        raise DeliveryRefused("FAILED_PRECONDITION", detail)
    try:
        return trigger_ref(
            TaskKind.MANUAL,
            bundle,
            rule,
            heal.repo,
            heal.ref or applied.ref,
            publish,
            idempotency_key=heal.idempotency_key,
            delivery_id=heal.drift_id,
            correlation_id=heal.correlation_id,
            traceparent=heal.traceparent,
        )
    except BadPayload as error:
        raise DeliveryRefused("INVALID_ARGUMENT", str(error)) from None


def trigger_ref(  # noqa: PLR0913
    kind: TaskKind,
    bundle: Bundle,
    rule: Rule,
    repo: str,
    ref: str,
    publish: Publish,
    *,
    idempotency_key: str = "",
    dry_run: bool = False,
    **extra: Any,
) -> Created:
    """Create a task that syncs, or in a dry run plans, a ref of a rule.

    Raises TooManyTasks, and BadPayload for a bad ref.
    """
    return create_task(
        NewTask(
            kind=kind,
            idempotency_key=idempotency_key or f"{kind}:{uuid.uuid4()}",
            platform=rule.platform,
            segment=rule.segment,
            request=TaskRequest(
                events=(event_for(bundle, rule, repo, ref),), rules=(rule.name,), dry_run=dry_run
            ),
            tenant=rule.tenant,
            bundle_digest=bundle.digest,
            **extra,
        ),
        publish,
    )


def _target(rule: Rule, heal: Heal) -> tuple[TargetKey, TargetState]:
    """Return the target of a request and what was applied there. Raises DeliveryRefused.

    Without a `destination_id`, which no list shows, it is the only target of the rule that fits.
    """
    if heal.destination_id:
        key = TargetKey(
            rule=rule.name, repo=heal.repo, env=heal.env, destination_id=heal.destination_id
        )
        found = [ledgers.find(key)]
    else:
        found = [*ledgers.of_rule(rule.name, repo=heal.repo, env=heal.env)]
    applied = [(each, each.applied) for each in found if each and each.applied]
    if len(applied) > 1 and heal.ref:
        applied = [each for each in applied if each[1].ref == heal.ref] or applied
    if not applied:
        raise DeliveryRefused(
            "FAILED_PRECONDITION",
            f"rule {rule.name!r} has no such target{_known_targets(rule)}",
        )
    if len(applied) > 1:
        raise DeliveryRefused(
            "INVALID_ARGUMENT",
            "several targets fit; name one by repo, env and ref"
            f"{known_names(_name_of(each) for each, _ in applied)}",
        )
    (ledger, state) = applied[0]
    return key_of(ledger), state


def _known_targets(rule: Rule) -> str:
    return known_names(_name_of(each) for each in ledgers.of_rule(rule.name) if each.applied)


def _name_of(ledger: Ledger) -> str:
    ref = ledger.applied.ref if ledger.applied else ""
    return f"{ledger.repo} {ledger.env} {ref} at {ledger.destination}"


def _rule(bundle: Bundle, heal: Heal) -> Rule:
    """Return the rule that a request names or implies. Raises DeliveryRefused."""
    if not heal.datasource:
        raise DeliveryRefused("INVALID_ARGUMENT", "datasource is required")
    found = [
        rule
        for rule in bundle.rules
        if heal.datasource in (rule.datasource, rule.segment)
        and heal.platform in ("", rule.platform)
        and heal.rule in ("", rule.name)
    ]
    if not found:
        named = f"rule {heal.rule!r}" if heal.rule else "rule"
        where = f"datasource {heal.datasource!r}"
        where += f" and platform {heal.platform!r}" if heal.platform else ""
        raise DeliveryRefused("NOT_FOUND", f"no {named} for {where}")
    if len(found) > 1:
        names = ", ".join(sorted(rule.name for rule in found))
        raise DeliveryRefused("INVALID_ARGUMENT", f"rule_id is required: one of {names}")
    return found[0]
