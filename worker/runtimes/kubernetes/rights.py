"""The rights that a runner needs in its namespace.

The Role of examples/deploy/kubernetes/base grants these and no others; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """A verb on a resource of the core API, `pods`, or on a part of it, `pods/log`."""

    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"

    def attributes(self, namespace: str) -> dict[str, str]:
        """Return the resource attributes of an access review."""
        resource, _, part = self.resource.partition("/")
        found = {"namespace": namespace, "verb": self.verb, "resource": resource}
        return {**found, "subresource": part} if part else found


_CHANGE: Final = ("get", "list", "watch", "create", "patch", "delete")
_VERBS: Final = {
    "pods": _CHANGE,
    "secrets": _CHANGE,
    "services": _CHANGE,
    "pods/log": ("get", "list"),
    "events": ("get", "list"),
    "pods/exec": ("get", "create"),
    "pods/attach": ("get", "create"),  # for pods that are started ahead
    "pods/ephemeralcontainers": ("patch",),  # for some shells, and for keepers that ended early
}


def _rights() -> Iterator[Right]:
    for resource, verbs in _VERBS.items():
        for verb in verbs:
            yield Right(resource=resource, verb=verb)


RIGHTS: Final = tuple(_rights())
CREATE_PODS: Final = Right(resource="pods", verb="create")
