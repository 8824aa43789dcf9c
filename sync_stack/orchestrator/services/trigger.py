"""Tasks that no delivery asked for: heals of the watcher, reconciles, and those of operators."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sync_stack.core.bundle.model import Bundle, Rule
from sync_stack.core.tasks import Kind
from sync_stack.orchestrator.execution.ref_events import event_for
from sync_stack.orchestrator.rows import ledgers
from sync_stack.orchestrator.rows.ledgers import UnitKey
from sync_stack.orchestrator.services.accept import Refused
from sync_stack.orchestrator.services.create import Created, NewTask, create_task

Publish = Callable[[Sequence[str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heal:
    """What the watcher compared with, and wants back."""

    rule: str
    repo: str
    env: str
    destination_id: str
    idempotency_key: str
    generation: int = 0
    drift_id: str = ""
    correlation_id: str = ""
    traceparent: str = ""


def trigger_heal(heal: Heal, bundle: Bundle, publish: Publish) -> Created:
    """Raises Refused, TooManyTasks."""
    if not heal.idempotency_key:
        raise Refused("INVALID_ARGUMENT", "idempotency_key is required")
    rule = _rule(bundle, heal.rule)
    if not rule.self_heal:
        raise Refused("FAILED_PRECONDITION", f"rule {rule.name!r} has no self_heal")
    key = UnitKey(rule=rule.name, repo=heal.repo, env=heal.env, destination_id=heal.destination_id)
    ledger = ledgers.find(key)
    if ledger is None or ledger.applied is None:
        raise Refused("FAILED_PRECONDITION", f"rule {rule.name!r} has no such unit")
    event = event_for(bundle, rule, heal.repo, ledger.applied.ref)
    asked = {
        "env": heal.env,
        "destination_id": heal.destination_id,
        "generation": heal.generation,
    }
    return create_task(
        NewTask(
            kind=Kind.HEAL,
            idempotency_key=heal.idempotency_key,
            platform=rule.platform,
            segment=rule.segment,
            events=[event],
            rules=[rule.name],
            tenant=rule.tenant,
            delivery_id=heal.drift_id,
            correlation_id=heal.correlation_id,
            bundle_digest=bundle.digest,
            traceparent=heal.traceparent,
            request={"heal": asked},
        ),
        publish,
    )


def trigger_ref(  # noqa: PLR0913
    kind: Kind,
    bundle: Bundle,
    rule: Rule,
    repo: str,
    ref: str,
    publish: Publish,
    *,
    idempotency_key: str = "",
    **extra: Any,
) -> Created:
    """Bring a ref of a rule up to date. Raises TooManyTasks, BadPayload for a bad ref."""
    return create_task(
        NewTask(
            kind=kind,
            idempotency_key=idempotency_key or f"{kind}:{uuid.uuid4()}",
            platform=rule.platform,
            segment=rule.segment,
            events=[event_for(bundle, rule, repo, ref)],
            rules=[rule.name],
            tenant=rule.tenant,
            bundle_digest=bundle.digest,
            **extra,
        ),
        publish,
    )


def _rule(bundle: Bundle, name: str) -> Rule:
    try:
        return bundle.rule(name)
    except KeyError:
        raise Refused("NOT_FOUND", f"no rule {name!r}") from None
