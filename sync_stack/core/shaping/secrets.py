"""Keys whose value comes from a secret manager: markers, where they may point.

(reference: sync-stack 4.6)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.shaping.leaves import Leaf, refusal

HIDDEN: Final = "***"
_MARKER: Final = re.compile(r"\s*@secret\(([^()]*)\)\s*")
_EMBEDDED: Final = re.compile(r"@secret\([^()]+#[^()]+\)")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._~@:+=-]+")
_KEY: Final = re.compile(r"[^\0-\x20\x7f#]{1,512}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRules:
    """`manager` is empty where the bundle has none; `prefix` has its braces filled already."""

    manager: str = ""
    prefix: str = ""
    allowed: bool = True  # a fork's pull request gets none


def marker_of(leaf: Leaf) -> str | None:
    """The `path#key` that a value stands for; None for an ordinary value.

    Raises ShapingError(secret_invalid) for a marker that is broken or only part of a value: it
    would be written as it stands.
    """
    if "@secret(" not in leaf.text:
        return None
    whole = _MARKER.fullmatch(leaf.text)
    if whole and "#" in whole[1]:
        return whole[1].strip()
    if whole or _EMBEDDED.search(leaf.text):
        raise refusal("secret_invalid", "a secret is written `@secret(path#key)`, alone", leaf)
    return None


def secret_of(leaf: Leaf, mark: str, rules: SecretRules) -> SecretRef:
    """The reference of a marked value; an empty mark means the prefix and the flat key.

    Raises ShapingError: `secret_invalid`, or `secret_unavailable` without a secret manager.
    """
    if not rules.allowed:
        raise refusal("secret_invalid", "a fork's pull request gets no secrets", leaf)
    path, _, key = mark.partition("#") if mark else (rules.prefix, "#", leaf.key)
    path, key = path.strip(), key.strip()
    problem = _path_problem(path, rules.prefix) or ("" if _KEY.fullmatch(key) else "no such key")
    if problem:
        raise refusal("secret_invalid", problem, leaf)
    if not rules.manager:
        detail = "the rule has no secret manager"
        raise refusal("secret_unavailable", detail, leaf, retryable=False)
    return SecretRef(manager=rules.manager, path=path, key=key)


def _path_problem(path: str, prefix: str) -> str:
    segments = path.split("/")
    if ".." in path or "." in segments:
        return "the path of a secret has no `..` and no `.`"
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        return "the path of a secret is names of letters, digits and ._~@:+=- joined by /"
    below = prefix.strip("/")
    if below and path != below and not path.startswith(f"{below}/"):
        return "the path of a secret lies outside the secret manager's path_prefix"
    return ""


def unavailable(key: str) -> ShapingError:
    return ShapingError("secret_unavailable", f'the secret of "{key[:80]}" was not fetched')
