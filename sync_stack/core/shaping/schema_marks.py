"""What a schema says about keys besides their type: which are secret, which are logged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sync_stack.core.shaping.leaves import Path


class SchemaUnusable(Exception):
    """The schema itself is wrong or cannot be evaluated; the message holds no value of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """`secrets`: path → `path#key`, or empty for the prefix and the flat key.

    A mark holds for what lies below its path too.
    """

    secrets: Mapping[Path, str] = field(default_factory=dict)
    logged: frozenset[Path] = frozenset()

    def secret_of(self, path: Path) -> str | None:
        for length in range(len(path), -1, -1) if self.secrets else ():
            if path[:length] in self.secrets:
                return self.secrets[path[:length]]
        return None

    def is_logged(self, path: Path) -> bool:
        if not self.logged:
            return False
        return any(path[:length] in self.logged for length in range(len(path) + 1))
