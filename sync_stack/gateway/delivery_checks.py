"""The checks that a delivery passes, in order, and its forwarding (reference: sync-stack 2.2)."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from sync_stack.core.bundle.model import SchemaRegistry
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.events import BadPayload, EventKind
from sync_stack.core.git_platform import EventClass, GitPlatform, Proof, git_platform
from sync_stack.core.replay import Delivery, ReplayKeys
from sync_stack.core.signatures import SignatureVerdict
from sync_stack.gateway.conf import EffectiveLimits
from sync_stack.gateway.forwarder import DeliveryContext, Forwarder, Outbound, outbound
from sync_stack.gateway.inbox import Inbox
from sync_stack.gateway.payloads import NotJson, read_payload
from sync_stack.gateway.rate_limits import MemoryBudget
from sync_stack.gateway.requests import WebhookRequest, too_large
from sync_stack.gateway.reservations import Reservation, Reservations
from sync_stack.gateway.responses import (
    Code,
    GatewayResponse,
    Refusal,
    accepted_response,
    ignored_response,
)
from sync_stack.gateway.routes import OTHER, SCHEMA_REGISTRY, CompiledBundle, PlatformRoute
from sync_stack.gateway.webhook_secrets import WebhookSecrets, WebhookSecretUnavailable

log: Final = logging.getLogger("partita.sync.gateway")

MAX_DELIVERY_ID: Final = 200
_SECRET_RETRY_S: Final = 5
_IDENTITY: Final = {"", "identity"}


class DeliveryOutcome(msgspec.Struct, kw_only=True):
    """The response; `reservation` is accepted or released after it was sent, by `stored`."""

    response: GatewayResponse
    reservation: Reservation | None = None
    stored: bool = False
    window_s: float = 0.0


class DeliveryLabels(msgspec.Struct, kw_only=True):
    """The labels of a delivery in metrics, filled in while its checks pass."""

    datasource: str = OTHER
    platform: str = OTHER
    event_type: str = OTHER


class _VerifiedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery whose sender is verified, or not verified outside production."""

    platform: Platform
    git: GitPlatform
    event_header: str
    event: str
    event_class: EventClass
    body: bytes
    verified: bool


class _CheckedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """All that is kept of a delivery while it is forwarded.

    It does not hold the body and the parsed values: those of all deliveries in progress would
    fill the memory and the processor's caches, at a tenth more CPU for each.
    """

    message: Outbound
    replay_keys: ReplayKeys
    repository: str  # the inbox keeps deliveries of one repository in order


class _NothingChanged(Exception):
    """A push without a change, which is ignored."""


@dataclass(slots=True, kw_only=True)
class DeliveryPipeline:
    """Checks and forwards the deliveries of a process."""

    webhook_secrets: WebhookSecrets
    memory: MemoryBudget
    reservations: Reservations
    forwarder: Forwarder
    production: bool
    inbox: Inbox | None = None
    warned: set[str] = field(default_factory=set)  # platforms without a secret, logged once

    async def handle(
        self,
        request: WebhookRequest,
        compiled: CompiledBundle,
        segment: str,
        labels: DeliveryLabels,
    ) -> DeliveryOutcome:
        """Check and forward one delivery. Raises Refusal for one that reserved nothing."""
        checked = await self._check(request, compiled, segment, labels)
        if checked is None:
            return DeliveryOutcome(response=ignored_response())
        limits = compiled.limits
        reservation = await self.reservations.reserve(
            checked.replay_keys, request.owner_id, forward_timeout_s=limits.forward_timeout_s
        )
        return await self._forward(checked, reservation, limits)

    async def finish(self, outcome: DeliveryOutcome, *, delivered: bool) -> None:
        """Accept the reservation of a stored delivery; release it if the response was lost."""
        if outcome.reservation is None:
            return
        if outcome.stored and delivered:
            await self.reservations.accept(outcome.reservation, outcome.window_s)
        else:
            await self.reservations.release(outcome.reservation)

    async def _check(
        self,
        request: WebhookRequest,
        compiled: CompiledBundle,
        segment: str,
        labels: DeliveryLabels,
    ) -> _CheckedDelivery | None:
        """Return None for an event that is ignored. Raises Refusal."""
        limits = compiled.limits
        _check_head(request, compiled, segment)
        route = _route(compiled, segment)
        labels.datasource = route.segment
        candidates = route.candidates(request.headers)
        if not candidates:
            raise Refusal(
                Code.PLATFORM_MISMATCH,
                "the request has no event header of any platform of this datasource",
            )
        body = await request.read_body(limits.max_body_bytes, self.memory)
        platform, verified = await self._verify_signature(
            request, candidates, body, limits.replay_window_s
        )
        labels.platform = platform.name
        git = git_platform(platform)
        event_header = request.headers.first_present(platform.event_type_header) or ""
        event = request.headers.get(event_header)
        event_class = git.event_class(platform, event)
        if event_class is None or (route.registry and event_class is not EventClass.PUSH):
            return None
        labels.event_type = event_class.value
        delivery = _VerifiedDelivery(
            platform=platform,
            git=git,
            event_header=event_header,
            event=event,
            event_class=event_class,
            body=body,
            verified=verified,
        )
        try:
            return await self._prepare(request, route, delivery, limits.max_body_bytes)
        except _NothingChanged:
            return None

    async def _verify_signature(
        self,
        request: WebhookRequest,
        candidates: tuple[Platform, ...],
        body: bytes,
        window_s: float,
    ) -> tuple[Platform, bool]:
        """Return the first platform whose secret verifies the body, and True.

        Platforms without a secret are considered last, outside production only.
        """
        unavailable, stale, open_to_all = "", False, None
        for platform in candidates:
            try:
                keys = await self.webhook_secrets.of(platform)
            except WebhookSecretUnavailable as error:
                unavailable = str(error)
                continue
            if not keys:
                open_to_all = open_to_all or platform
                continue
            proof = Proof(
                headers=request.headers,
                body=body,
                keys=keys,
                now_s=time.time(),
                window_s=window_s,
            )
            verdict = git_platform(platform).verify_signature(platform, proof)
            if verdict is SignatureVerdict.VALID:
                return platform, True
            stale = stale or verdict is SignatureVerdict.STALE
        if open_to_all is not None and not self.production:
            self._warn_unverified(open_to_all)
            return open_to_all, False
        raise _verification_refusal(unavailable, stale=stale)

    async def _prepare(
        self, request: WebhookRequest, route: PlatformRoute, verified: _VerifiedDelivery, limit: int
    ) -> _CheckedDelivery:
        header, delivery_id = _delivery_id(request, verified.platform)
        if not delivery_id and self.production and verified.git.needs_delivery_id:
            names = " or ".join(verified.platform.delivery_header)
            raise Refusal(Code.MISSING_DELIVERY_ID, f"the {names} header is required")
        repository = await self._validate_payload(verified, route, limit)
        delivery = Delivery(
            platform=verified.platform.name,
            segment=route.segment,
            event=verified.event,
            delivery_id=delivery_id,
            body=verified.body,
        )
        message = outbound(
            delivery,
            DeliveryContext(
                headers=request.headers,
                header_names=(
                    (verified.event_header, header) if header else (verified.event_header,)
                ),
                received_ns=time.time_ns(),
                correlation_id=request.correlation_id,
                traceparent=request.traceparent,
                signature_verified=verified.verified,
            ),
        )
        keys = delivery.replay_keys(id_is_signed=verified.git.id_is_signed)
        return _CheckedDelivery(message=message, replay_keys=keys, repository=repository)

    async def _validate_payload(
        self, delivery: _VerifiedDelivery, route: PlatformRoute, limit: int
    ) -> str:
        """Return the repository for the inbox; empty without an inbox. Raises Refusal."""
        git, platform, event_class = delivery.git, delivery.platform, delivery.event_class
        try:
            payload = await read_payload(delivery.body, limit=limit)
        except NotJson as error:
            raise Refusal(Code.INVALID_JSON, str(error)) from None
        required = git.required_members(platform, event_class)
        if missing := [name for name in required if payload.get(name) is None]:
            raise Refusal(Code.PAYLOAD_VALIDATION, f"the payload must contain {', '.join(missing)}")
        if git.is_empty(platform, event_class, payload):
            raise _NothingChanged
        if route.registry is not None:
            _check_registry(delivery, route.registry, payload)
        if self.inbox is None:
            return ""
        try:
            return f"{platform.name}:{git.repository(platform, payload).lower()}"
        except BadPayload:
            return f"{platform.name}:"

    async def _forward(
        self, checked: _CheckedDelivery, reservation: Reservation, limits: EffectiveLimits
    ) -> DeliveryOutcome:
        message, window = checked.message, limits.replay_window_s
        try:
            if self.inbox is not None and await self.inbox.put(checked.repository, message):
                response = accepted_response("", "queued")
            else:
                timeout = limits.forward_timeout_s
                response = accepted_response(
                    await self.forwarder.forward(message, timeout_s=timeout)
                )
        except Refusal as refusal:
            return DeliveryOutcome(response=refusal.response, reservation=reservation)
        except BaseException:
            await self.reservations.release(reservation)
            raise
        return DeliveryOutcome(
            response=response, reservation=reservation, stored=True, window_s=window
        )

    def _warn_unverified(self, platform: Platform) -> None:
        if platform.name not in self.warned:
            self.warned.add(platform.name)
            log.warning(
                "%s has no secret: its deliveries are not verified",
                platform.name,
                extra={"event": "unverified_platform", "platform": platform.name},
            )


def _check_head(request: WebhookRequest, compiled: CompiledBundle, segment: str) -> None:
    """Raise Refusal unless the head announces JSON within the size limit."""
    headers, limit = request.headers, compiled.limits.max_body_bytes
    types = headers.all("content-type")
    if not types or not types[0]:
        raise Refusal(
            Code.INVALID_CONTENT_TYPE, "Content-Type: application/json is required", status=400
        )
    media = types[0].partition(";")[0].strip().lower()
    if len(types) > 1 or media != "application/json":
        hint = _json_hint(compiled, segment, request)
        raise Refusal(Code.INVALID_CONTENT_TYPE, f"Content-Type must be application/json{hint}")
    if "content-encoding" in headers:
        encodings = {value.lower() for value in headers.all("content-encoding")}
        if not encodings <= _IDENTITY:
            raise Refusal(
                Code.INVALID_CONTENT_TYPE,
                "Content-Encoding is not supported: send the body uncompressed",
            )
    if (request.declared_length or 0) > limit:
        raise too_large(limit)


def _json_hint(compiled: CompiledBundle, segment: str, request: WebhookRequest) -> str:
    """Name the setting of the sending platform that selects JSON, where it has one."""
    try:
        candidates = _route(compiled, segment).candidates(request.headers)
    except Refusal:
        return ""
    for platform in candidates:
        if setting := git_platform(platform).json_setting:
            return f": set {setting!r} to it in the webhook settings of {platform.name}"
    return ""


def _route(compiled: CompiledBundle, segment: str) -> PlatformRoute:
    route = compiled.routes.get(segment)
    if route is not None:
        return route
    if segment == SCHEMA_REGISTRY:
        raise Refusal(
            Code.SCHEMA_REGISTRY_NOT_CONFIGURED, "the bundle configures no schema registry"
        )
    raise Refusal(Code.DATASOURCE_NOT_FOUND, "no rule uses this datasource")


def _verification_refusal(unavailable: str, *, stale: bool) -> Refusal:
    if stale:
        return Refusal(Code.REPLAY_DETECTED, "the delivery was signed too long ago")
    if unavailable:
        log.warning("%s", unavailable, extra={"event": "secret_unavailable"})
        return Refusal(
            Code.SECRET_UNAVAILABLE,
            "the webhook secret of the platform is temporarily unavailable",
            retry_after_s=_SECRET_RETRY_S,
        )
    return Refusal(Code.SIGNATURE_INVALID, "the signature is missing or invalid")


def _delivery_id(request: WebhookRequest, platform: Platform) -> tuple[str, str]:
    """Return the first filled header of the platform and its value, or two empty texts."""
    for name in platform.delivery_header:
        if value := request.headers.get(name):
            if len(value) > MAX_DELIVERY_ID:
                message = f"the {name} header is longer than {MAX_DELIVERY_ID} characters"
                raise Refusal(Code.MISSING_DELIVERY_ID, message)
            return name, value
    return "", ""


def _check_registry(
    delivery: _VerifiedDelivery, registry: SchemaRegistry, payload: Mapping[str, Any]
) -> None:
    """Raise Refusal unless a change is to the branch and repository of the schema registry."""
    try:
        events = delivery.git.normalize(delivery.platform, delivery.event, payload)
    except BadPayload as error:
        raise Refusal(Code.PAYLOAD_VALIDATION, str(error)) from None
    if any(event.repo.lower() != registry.repo.lower() for event in events):
        raise Refusal(Code.PAYLOAD_VALIDATION, "not a push to the repository of the registry")
    if not any(
        event.kind is EventKind.PUSH and event.branch == registry.branch for event in events
    ):
        raise Refusal(Code.PAYLOAD_VALIDATION, "not a push to the branch of the registry")
