"""Image registries of the platform settings, with the credentials to pull images."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from kernel.pull_credentials import PullCredentials

_HUB: Final = "docker.io"
_HUB_ALIASES: Final = frozenset(["index.docker.io", "registry-1.docker.io", "hub.docker.com"])
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


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


def credentials_for(registries: Iterable[ImageRegistry], image: str) -> PullCredentials | None:
    """Return the credentials for an image, from the first registry whose scope covers it."""
    host, repository = image_place(image)
    known = [each for each in registries if each.host == host and each.secret]
    for registry in sorted(known, key=lambda each: not each.covers(repository)):
        return PullCredentials(host=host, username=registry.username, secret=registry.secret)
    return None


def image_place(image: str) -> tuple[str, str]:
    """Return registry host and repository of an image reference, as Docker parses it."""
    name = image.partition("@")[0]
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        host = first.lower().removesuffix(":443")  # engines try port 443, but not port 80
        return _HUB if host in _HUB_ALIASES else host, rest.partition(":")[0]
    return _HUB, name.partition(":")[0]
