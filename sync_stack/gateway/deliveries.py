"""The checks of a delivery, in order, and what becomes of it (reference: sync-stack 2.2)."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from sync_stack.core.bundle.model import Platform, SchemaRegistry
from sync_stack.core.events import BadPayload, EventKind
from sync_stack.core.replay import Delivery, ReplayKeys
from sync_stack.core.signatures import Verdict
from sync_stack.gateway.answers import Answer, Code, Refusal, accepted, ignored
from sync_stack.gateway.conf import Limits
from sync_stack.gateway.forwarding import DeliveryContext, Forwarder, Outbound, outbound
from sync_stack.gateway.inbox import Inbox
from sync_stack.gateway.payloads import NotJson, read_payload
from sync_stack.gateway.rate_limits import MemoryBudget
from sync_stack.gateway.requests import Request, too_large
from sync_stack.gateway.reservations import Reservation, Reservations
from sync_stack.gateway.routes import OTHER, SCHEMA_REGISTRY, CompiledBundle, Route
from sync_stack.gateway.webhook_secrets import KeyUnavailable, WebhookSecrets
from sync_stack.platforms import EventClass, GitPlatform, Proof, git_platform

log: Final = logging.getLogger("partita.sync.gateway")

MAX_DELIVERY_ID: Final = 200
_SECRET_RETRY_S: Final = 5
_IDENTITY: Final = {"", "identity"}


class Outcome(msgspec.Struct, kw_only=True):
    """The answer; `reservation` is settled after it went out, `stored` says how."""

    answer: Answer
    reservation: Reservation | None = None
    stored: bool = False
    window_s: float = 0.0


class Labels(msgspec.Struct, kw_only=True):
    """What metrics say of a delivery; as far as its checks came."""

    datasource: str = OTHER
    platform: str = OTHER
    event_type: str = OTHER


class _Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery whose sender is proven."""

    platform: Platform
    git: GitPlatform
    event_header: str
    event: str
    event_class: EventClass
    body: bytes
    verified: bool


class _Checked(msgspec.Struct, frozen=True, kw_only=True):
    """All that is kept of a delivery while it is handed on.

    Its body and the values in it are gone by then: those of all deliveries under way would fill
    the memory and the processor's caches, at a tenth more CPU for each.
    """

    message: Outbound
    replay_keys: ReplayKeys
    repository: str  # what the inbox keeps deliveries in order for


class _NothingChanged(Exception):
    """A push that lists no change is ignored as other events are."""


@dataclass(slots=True, kw_only=True)
class DeliveryPipeline:
    """What deliveries pass through; one a process."""

    keys: WebhookSecrets
    held: MemoryBudget
    reservations: Reservations
    forwarder: Forwarder
    production: bool
    inbox: Inbox | None = None
    warned: set[str] = field(default_factory=set)  # platforms without a secret, named once

    async def handle(
        self, request: Request, generation: CompiledBundle, segment: str, labels: Labels
    ) -> Outcome:
        """Raises Refusal; a reservation made by then is released before."""
        checked = await self._checked(request, generation, segment, labels)
        if checked is None:
            return Outcome(answer=ignored())
        limits = generation.limits
        reservation = await self.reservations.reserve(
            checked.replay_keys, request.request_id, forward_timeout_s=limits.forward_timeout_s
        )
        return await self._hand_on(checked, reservation, limits)

    async def settle(self, outcome: Outcome, *, delivered: bool) -> None:
        """After the answer: the records stay for the window, or go when it did not arrive."""
        if outcome.reservation is None:
            return
        if outcome.stored and delivered:
            await self.reservations.accept(outcome.reservation, outcome.window_s)
        else:
            await self.reservations.release(outcome.reservation)

    async def _checked(
        self, request: Request, generation: CompiledBundle, segment: str, labels: Labels
    ) -> _Checked | None:
        """Read and checked; None for an event that is ignored. Raises Refusal."""
        limits = generation.limits
        _check_head(request, generation, segment)
        route = _route(generation, segment)
        labels.datasource = route.segment
        candidates = route.candidates(request.headers)
        if not candidates:
            raise Refusal(
                Code.PLATFORM_MISMATCH, "no event header of a platform of this datasource"
            )
        body = await request.read_body(limits.max_body_bytes, self.held)
        platform, verified = await self._sender(request, candidates, body, generation)
        labels.platform = platform.name
        git = git_platform(platform)
        event_header = request.headers.first_present(platform.event_type_header) or ""
        event = request.headers.get(event_header)
        event_class = git.event_class(platform, event)
        if event_class is None or (route.registry and event_class is not EventClass.PUSH):
            return None
        labels.event_type = event_class.value
        sent = _Sent(
            platform=platform,
            git=git,
            event_header=event_header,
            event=event,
            event_class=event_class,
            body=body,
            verified=verified,
        )
        try:
            return await self._read(request, route, sent, limits.max_body_bytes)
        except _NothingChanged:
            return None

    async def _sender(
        self,
        request: Request,
        candidates: tuple[Platform, ...],
        body: bytes,
        generation: CompiledBundle,
    ) -> tuple[Platform, bool]:
        """The first platform whose key verifies; those without a key are tried last."""
        unavailable, stale, open_to_all = "", False, None
        for platform in candidates:
            try:
                keys = await self.keys.of(platform)
            except KeyUnavailable as error:
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
                window_s=generation.limits.replay_window_s,
            )
            verdict = git_platform(platform).verdict(platform, proof)
            if verdict is Verdict.VALID:
                return platform, True
            stale = stale or verdict is Verdict.STALE
        if open_to_all is not None and not self.production:
            self._warn_of(open_to_all)
            return open_to_all, False
        raise _unproven(unavailable, stale=stale)

    async def _read(self, request: Request, route: Route, sent: _Sent, limit: int) -> _Checked:
        header, delivery_id = _delivery_id(request, sent.platform)
        if not delivery_id and self.production and sent.git.needs_delivery_id:
            names = " or ".join(sent.platform.delivery_header)
            raise Refusal(Code.MISSING_DELIVERY_ID, f"the header {names} is required")
        repository = await self._repository_of(sent, route, limit)
        delivery = Delivery(
            platform=sent.platform.name,
            segment=route.segment,
            event=sent.event,
            delivery_id=delivery_id,
            body=sent.body,
        )
        message = outbound(
            delivery,
            DeliveryContext(
                headers=request.headers,
                header_names=(sent.event_header, header) if header else (sent.event_header,),
                received_ns=time.time_ns(),
                correlation_id=request.correlation_id,
                traceparent=request.traceparent,
                signature_verified=sent.verified,
            ),
        )
        keys = delivery.replay_keys(id_is_signed=sent.git.id_is_signed)
        return _Checked(message=message, replay_keys=keys, repository=repository)

    async def _repository_of(self, sent: _Sent, route: Route, limit: int) -> str:
        """Empty without an inbox. Raises Refusal for a payload that is not in order."""
        try:
            payload = await read_payload(sent.body, limit=limit)
        except NotJson as error:
            raise Refusal(Code.INVALID_JSON, str(error)) from None
        _check_members(sent.git.required_members(sent.platform, sent.event_class), payload)
        if sent.git.is_empty(sent.platform, sent.event_class, payload):
            raise _NothingChanged
        if route.registry is not None:
            _check_registry(sent, route.registry, payload)
        return _repository(sent, payload) if self.inbox is not None else ""

    async def _hand_on(
        self, checked: _Checked, reservation: Reservation, limits: Limits
    ) -> Outcome:
        message, window = checked.message, limits.replay_window_s
        try:
            if self.inbox is not None and await self.inbox.put(checked.repository, message):
                answer = accepted("", "queued")
            else:
                timeout = limits.forward_timeout_s
                answer = accepted(await self.forwarder.forward(message, timeout_s=timeout))
        except Refusal as refusal:
            return Outcome(answer=refusal.answer, reservation=reservation)
        except BaseException:
            await self.reservations.release(reservation)
            raise
        return Outcome(answer=answer, reservation=reservation, stored=True, window_s=window)

    def _warn_of(self, platform: Platform) -> None:
        if platform.name not in self.warned:
            self.warned.add(platform.name)
            log.warning(
                "%s has no secret: its deliveries are not verified",
                platform.name,
                extra={"event": "unverified_platform", "platform": platform.name},
            )


def _json_hint(generation: CompiledBundle, segment: str, request: Request) -> str:
    """Name the setting of the sending platform that chooses JSON, where it has one."""
    try:
        candidates = _route(generation, segment).candidates(request.headers)
    except Refusal:
        return ""
    for platform in candidates:
        if setting := git_platform(platform).json_setting:
            return f": in the webhook's settings at {platform.name}, set {setting!r} to it"
    return ""


def _check_head(request: Request, generation: CompiledBundle, segment: str) -> None:
    """Raise Refusal for a head that promises no JSON, or more of it than the limit."""
    headers, limit = request.headers, generation.limits.max_body_bytes
    types = headers.all("content-type")
    if not types or not types[0]:
        raise Refusal(
            Code.INVALID_CONTENT_TYPE, "Content-Type: application/json is required", status=400
        )
    media = types[0].partition(";")[0].strip().lower()
    if len(types) > 1 or media != "application/json":
        hint = _json_hint(generation, segment, request)
        raise Refusal(Code.INVALID_CONTENT_TYPE, f"Content-Type must be application/json{hint}")
    if "content-encoding" in headers:
        encodings = {value.lower() for value in headers.all("content-encoding")}
        if not encodings <= _IDENTITY:
            raise Refusal(Code.INVALID_CONTENT_TYPE, "a Content-Encoding is not accepted")
    if (request.declared_length or 0) > limit:
        raise too_large(limit)


def _route(generation: CompiledBundle, segment: str) -> Route:
    route = generation.routes.get(segment)
    if route is not None:
        return route
    if segment == SCHEMA_REGISTRY:
        raise Refusal(
            Code.SCHEMA_REGISTRY_NOT_CONFIGURED, "the bundle configures no schema registry"
        )
    raise Refusal(Code.DATASOURCE_NOT_FOUND, "no rule names this datasource")


def _unproven(unavailable: str, *, stale: bool) -> Refusal:
    if stale:
        return Refusal(Code.REPLAY_DETECTED, "the delivery was signed too long ago")
    if unavailable:
        log.warning("%s", unavailable, extra={"event": "secret_unavailable"})
        return Refusal(
            Code.SECRET_UNAVAILABLE,
            "the key of the platform cannot be fetched now",
            retry_after_s=_SECRET_RETRY_S,
        )
    return Refusal(Code.SIGNATURE_INVALID, "the signature is missing or wrong")


def _delivery_id(request: Request, platform: Platform) -> tuple[str, str]:
    """The header and its value; empty when none of the platform's headers is filled."""
    for name in platform.delivery_header:
        if value := request.headers.get(name):
            if len(value) > MAX_DELIVERY_ID:
                message = f"{name} has more than {MAX_DELIVERY_ID} characters"
                raise Refusal(Code.MISSING_DELIVERY_ID, message)
            return name, value
    return "", ""


def _check_members(required: tuple[str, ...], payload: Mapping[str, Any]) -> None:
    missing = [name for name in required if payload.get(name) is None]
    if missing:
        raise Refusal(Code.PAYLOAD_VALIDATION, f"the payload must hold {', '.join(missing)}")


def _check_registry(sent: _Sent, registry: SchemaRegistry, payload: Mapping[str, Any]) -> None:
    """Every change is one of the configured branch of the configured repository."""
    try:
        events = sent.git.normalize(sent.platform, sent.event, payload)
    except BadPayload as error:
        raise Refusal(Code.PAYLOAD_VALIDATION, str(error)) from None
    for event in events:
        if event.repo.lower() != registry.repo.lower():
            raise Refusal(Code.PAYLOAD_VALIDATION, "not the repository of the schema registry")
    if not any(
        event.kind is EventKind.PUSH and event.branch == registry.branch for event in events
    ):
        raise Refusal(Code.PAYLOAD_VALIDATION, "not the branch of the schema registry")


def _repository(sent: _Sent, payload: Mapping[str, Any]) -> str:
    platform = sent.platform
    try:
        return f"{platform.name}:{sent.git.repository(platform, payload).lower()}"
    except BadPayload:
        return f"{platform.name}:"
