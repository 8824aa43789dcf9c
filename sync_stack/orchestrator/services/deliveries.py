"""ProcessWebhook: a verified delivery becomes a task (reference: sync-stack 3, 4.2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import DataError

from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.events import BadPayload
from sync_stack.core.git_platform import normalize
from sync_stack.core.tasks import TaskKind
from sync_stack.orchestrator import conf
from sync_stack.orchestrator.domain.task_documents import TaskRequest
from sync_stack.orchestrator.services.task_creation import (
    Created,
    NewTask,
    create_task,
    create_tasks,
)

SCHEMA_REGISTRY = "schema-registry"


class DeliveryRefused(Exception):
    """The request cannot become a task; `status` is the name of a gRPC status code."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """A verified webhook as the gateway forwards it."""

    platform: str
    datasource: str
    raw_payload: bytes
    event: str
    idempotency_key: str
    delivery_id: str = ""
    correlation_id: str = ""
    signature_verified: bool = False
    traceparent: str = ""


def accept_delivery(
    delivery: WebhookDelivery, bundle: Bundle, publish: Callable[[Sequence[str]], None]
) -> Created:
    """Create the task of a delivery, durably.

    Raises DeliveryRefused, TooManyTasks, and the errors of the store.
    """
    try:
        return create_task(_new_task(delivery, bundle), publish)
    except DataError:
        raise _unstorable() from None


def accept_deliveries(
    deliveries: Sequence[WebhookDelivery], bundle: Bundle, publish: Callable[[Sequence[str]], None]
) -> list[Created | DeliveryRefused]:
    """Create the tasks of deliveries in one transaction; a refused one does not stop the others.

    The results are in the order of the deliveries. Raises the store's errors: then no task is
    published.
    """
    try:
        return _accept(deliveries, bundle, publish)
    except DataError:  # one of them holds what the store cannot: only that one is refused
        if len(deliveries) == 1:
            return [_unstorable()]
    return [accept_deliveries([delivery], bundle, publish)[0] for delivery in deliveries]


def _accept(
    deliveries: Sequence[WebhookDelivery], bundle: Bundle, publish: Callable[[Sequence[str]], None]
) -> list[Created | DeliveryRefused]:
    read = [_new_task_or_refusal(delivery, bundle) for delivery in deliveries]
    created = iter(create_tasks([each for each in read if isinstance(each, NewTask)], publish))
    too_many = DeliveryRefused("RESOURCE_EXHAUSTED", "too many tasks are waiting")
    return [
        each if isinstance(each, DeliveryRefused) else next(created) or too_many for each in read
    ]


def _unstorable() -> DeliveryRefused:
    return DeliveryRefused("INVALID_ARGUMENT", "the store cannot hold this delivery")


def _new_task_or_refusal(delivery: WebhookDelivery, bundle: Bundle) -> NewTask | DeliveryRefused:
    try:
        return _new_task(delivery, bundle)
    except DeliveryRefused as refusal:
        return refusal


def _new_task(delivery: WebhookDelivery, bundle: Bundle) -> NewTask:
    """Return the task of a delivery. Raises DeliveryRefused."""
    if not delivery.idempotency_key:
        raise DeliveryRefused("INVALID_ARGUMENT", "idempotency_key is required")
    if conf.is_production() and not delivery.signature_verified:
        raise DeliveryRefused("PERMISSION_DENIED", "the signature of the delivery was not verified")
    platform = _platform(delivery, bundle)
    try:
        events = normalize(platform, delivery.event, _payload(delivery.raw_payload))
    except (BadPayload, RecursionError) as error:
        raise DeliveryRefused("INVALID_ARGUMENT", f"bad_payload: {error}") from None
    rules = bundle.rules_of_segment(delivery.datasource)
    tenants = {rule.tenant for rule in rules if rule.platform == delivery.platform}
    kind = TaskKind.SCHEMA_REFRESH if delivery.datasource == SCHEMA_REGISTRY else TaskKind.WEBHOOK
    return NewTask(
        kind=kind,
        idempotency_key=delivery.idempotency_key,
        platform=delivery.platform,
        segment=delivery.datasource,
        request=TaskRequest(events=events),
        tenant=tenants.pop() if len(tenants) == 1 else "",
        delivery_id=delivery.delivery_id[:256],
        correlation_id=delivery.correlation_id[:128],
        bundle_digest=bundle.digest,
        traceparent=delivery.traceparent,
    )


def _platform(delivery: WebhookDelivery, bundle: Bundle) -> Platform:
    names = {rule.platform for rule in bundle.rules_of_segment(delivery.datasource)}
    if delivery.datasource == SCHEMA_REGISTRY and bundle.schema_registry:
        names = {bundle.schema_registry.platform}
    if delivery.platform not in names:
        raise DeliveryRefused(
            "NOT_FOUND",
            f"no rule for platform {delivery.platform!r} and datasource {delivery.datasource!r}",
        )
    return bundle.platform(delivery.platform)


def _payload(raw: bytes) -> dict[str, object]:
    try:
        payload = json.loads(raw)
    except ValueError as error:
        raise BadPayload(f"the payload is not valid JSON: {type(error).__name__}") from None
    if not isinstance(payload, dict):
        raise BadPayload("the payload is not a JSON object")
    return payload
