"""Image registries of the platform settings, with the credentials to pull images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from apps.platform_settings.domain.addresses import broken_address_rule, without_user
from apps.platform_settings.domain.fields import Fields
from apps.platform_settings.domain.wire import REGISTRY, names
from kernel.ids import is_identifier
from readers.yaml import Node

KEYS: Final = names(REGISTRY)
_HUB: Final = "docker.io"
_HUB_ALIASES: Final = frozenset(["index.docker.io", "registry-1.docker.io", "hub.docker.com"])
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials of a registry. Without a user name, the secret is a bearer token."""

    host: str
    username: str = field(repr=False)
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRegistry:
    """An entry of `registries`: where images and suites are pulled from."""

    registry_id: str
    name: str = ""
    provider: str = ""
    url: str
    username: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    scope: tuple[str, ...] = ()  # names and path prefixes of repositories; empty: all
    region: str = ""
    allow_local_network: bool = False

    @property
    def host(self) -> str:
        """The host as in image references: without scheme, and without a default port."""
        parts = urlsplit(self.url)
        host = (parts.hostname or "").lower()
        if host in _HUB_ALIASES:
            return _HUB
        is_default = parts.port in (None, _DEFAULT_PORTS.get(parts.scheme))
        return host if is_default else f"{host}:{parts.port}"

    def covers(self, repository: str) -> bool:
        return not self.scope or any(
            repository == name or repository.startswith(f"{name}/") for name in self.scope
        )


def credentials_for(registries: Iterable[ImageRegistry], image: str) -> Credentials | None:
    """Return the credentials for an image, from the first registry whose scope covers it."""
    host, repository = image_place(image)
    known = [each for each in registries if each.host == host and each.secret]
    for registry in sorted(known, key=lambda each: not each.covers(repository)):
        return Credentials(host=host, username=registry.username, secret=registry.secret)
    return None


def image_place(image: str) -> tuple[str, str]:
    """Return registry host and repository of an image reference, as Docker parses it."""
    name = image.partition("@")[0]
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        host = first.lower().removesuffix(":443")  # engines try port 443, but not port 80
        return _HUB if host in _HUB_ALIASES else host, rest.partition(":")[0]
    return _HUB, name.partition(":")[0]


def read_registries(fields: Fields, root: Node) -> Iterator[ImageRegistry]:
    """Yield each entry; errors go to `fields`."""
    seen: set[str] = set()
    for node, pointer in fields.entries(root, "", "registries"):
        if not fields.known_keys(node, pointer, KEYS):
            continue
        registry = _registry(fields, node, pointer)
        if registry.registry_id.lower() in seen:
            fields.refuse(node, f"{pointer}/registryId", "duplicate", "registryId is used twice")
        seen.add(registry.registry_id.lower())
        yield registry


def _registry(fields: Fields, node: Node, pointer: str) -> ImageRegistry:
    scope = (
        name.strip().strip("/") for name in fields.text(node, pointer, "repositoryScope").split(",")
    )
    names_of_scope = tuple(filter(None, scope))
    return ImageRegistry(
        registry_id=_registry_id(fields, node, pointer),
        name=fields.require_text(node, pointer, "name"),
        provider=fields.require_text(node, pointer, "provider"),
        url=_url(fields, node, pointer),
        username=fields.text(node, pointer, "username"),
        secret=fields.secret(node, pointer, "secret"),
        scope=() if "*" in names_of_scope else names_of_scope,
        region=fields.text(node, pointer, "region"),
        allow_local_network=fields.flag(node, pointer, "allowLocalNetwork", default=False),
    )


def _registry_id(fields: Fields, node: Node, pointer: str) -> str:
    registry_id = fields.require_text(node, pointer, "registryId")
    if registry_id and not is_identifier(registry_id):
        detail = "may have letters, digits, dots, dashes and underscores, 128 at most"
        fields.refuse_value(node, pointer, "registryId", detail)
    return registry_id


def _url(fields: Fields, node: Node, pointer: str) -> str:
    """Return the address; without a scheme, it is one of https (reference: control-plane 5.2)."""
    url = fields.require_text(node, pointer, "registryUrl")
    if url and "://" not in url:
        url = f"https://{url}"
    if url and (rule := broken_address_rule(url)):
        fields.refuse_value(node, pointer, "registryUrl", rule)
        url = without_user(url)  # as an older version stored it, it stays in use
        return "" if broken_address_rule(url) else url
    return url
