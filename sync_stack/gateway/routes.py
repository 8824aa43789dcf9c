"""A bundle compiled for requests: its routes by path segment, its limits, its proxies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sync_stack.core.bundle.model import Bundle, SchemaRegistry
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.bundle.rules import RESERVED_SEGMENT
from sync_stack.core.git_platform import git_platform
from sync_stack.core.headers import Headers
from sync_stack.gateway.client_address import ClientAddresses
from sync_stack.gateway.conf import EffectiveLimits, Overrides, effective_limits

SCHEMA_REGISTRY: Final = RESERVED_SEGMENT
OTHER: Final = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRoute:
    """The platforms of a path segment, by the precedence of their kind, then in bundle order."""

    segment: str
    platforms: tuple[Platform, ...]
    registry: SchemaRegistry | None = None

    def candidates(self, headers: Headers) -> tuple[Platform, ...]:
        """Return the platforms of one kind whose event header is present."""
        found: list[Platform] = []
        for platform in self.platforms:
            if found and platform.kind != found[0].kind:
                break
            if headers.first_present(platform.event_type_header) is not None:
                found.append(platform)
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledBundle:
    """A bundle and what follows from it; a request uses the same one from start to end."""

    bundle: Bundle
    limits: EffectiveLimits
    client_addresses: ClientAddresses
    routes: Mapping[str, PlatformRoute]


def compile_bundle(bundle: Bundle, overrides: Overrides) -> CompiledBundle:
    limits = effective_limits(overrides, bundle)
    named: dict[str, dict[str, Platform]] = {}
    for rule in bundle.rules:
        named.setdefault(rule.segment, {})[rule.platform] = bundle.platform(rule.platform)
    routes = {
        segment: PlatformRoute(
            segment=segment,
            platforms=tuple(
                sorted(platforms.values(), key=lambda each: git_platform(each).precedence)
            ),
        )
        for segment, platforms in named.items()
    }
    if registry := bundle.schema_registry:
        platform = bundle.platform(registry.platform)
        routes[SCHEMA_REGISTRY] = PlatformRoute(
            segment=SCHEMA_REGISTRY, platforms=(platform,), registry=registry
        )
    client_addresses = ClientAddresses(limits.trusted_proxies)
    return CompiledBundle(
        bundle=bundle, limits=limits, client_addresses=client_addresses, routes=routes
    )
