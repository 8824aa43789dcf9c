"""The syntax of templates, and what their paths may name (reference: control-plane 18.6).

template = { text | "{{" expr "}}" } ; expr = alt { "||" alt } ; alt = quoted | path
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from readers.diagnostics import nearest_advice

Step = str | int
MAX_STEPS: Final = 50
INDEX_DIGITS: Final = 9
_STEP: Final = re.compile(
    r"""(?P<dot>[./])?(?:(?P<name>[^\s.\[\]/|"'{}]+)"""
    r"""|\[\s*(?:(?P<index>\d+)|"(?P<double>[^"]*)"|'(?P<single>[^']*)')\s*\])""",
    re.ASCII,
)
_QUOTED: Final = r"""(?:"[^"]*"|'[^']*')"""
QUOTED: Final = re.compile(_QUOTED)
EXPRESSION: Final = re.compile(rf"""\{{\{{((?:[^"'{{}}]|{_QUOTED})*)\}}\}}""")
_ALTERNATIVE: Final = re.compile(rf"""((?:[^"'|]|{_QUOTED})*)(\|\||\Z)""")
# the members of each root; () are those that a record has
_ROOTS: Final[Mapping[str, tuple[str, ...]]] = {
    "request": ("method", "path", "query", "headers", "body", "rawBody"),
    "response": ("body",),
    "state": (),
    "suite": ("id", "title", "repository", "surfaceId", "surfaceTitle"),
    "operation": ("id", "name", "resolverUrl", "runtimeUrl"),
    "match": ("example",),
    "execution": ("id",),
}
# `upper(x)`, and what helpers of Handlebars look like: `upper request.path.id`, `date format='y'`
_CALL: Final = re.compile(
    r"""(?P<name>[#A-Za-z_][\w.-]*)(?:\s*\(|\s+(?=.*?(?:["']|\w=|\b(?:"""
    + "|".join(_ROOTS)
    + r""")[./\[])))""",
    re.ASCII | re.DOTALL,
)


def parse_path(text: str) -> tuple[Step, ...] | None:
    """Return the steps of `card.type`, `items[0].id` or `a/b["c"]`; None for another text."""
    steps: list[Step] = []
    at = 0
    while at < len(text) and len(steps) < MAX_STEPS:
        found = _STEP.match(text, at)
        # a name needs its dot or slash, unless it is the first; a bracket has none
        if found is None or (bool(found["dot"]) != (found["name"] is not None and at > 0)):
            return None
        steps.append(_step(found))
        at = found.end()
    return tuple(steps) if steps and at == len(text) else None


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        digits = found["index"]
        return int(digits) if len(digits) <= INDEX_DIGITS else 10**INDEX_DIGITS
    for group in ("name", "double", "single"):
        if found[group] is not None:
            return found[group]
    raise AssertionError("a step has one of these groups")


class NoExpression(ValueError):
    """What stands between the braces is text."""


def alternatives(inner: str) -> Iterator[str]:
    """Yield the paths and quoted texts of an expression; raise NoExpression at anything else."""
    at = 0
    while True:
        found = _ALTERNATIVE.match(inner, at)
        if found is None:
            raise NoExpression
        yield found[1].strip()
        if not found[2]:
            return
        at = found.end()


def template_problems(text: str) -> Iterator[str]:
    """Yield why expressions of a template can never have a value: unknown paths and functions.

    What a request or a record may lack is no problem, and neither is what is no expression.
    """
    for found in EXPRESSION.finditer(text) if "{{" in text else ():
        with suppress(NoExpression):
            for alternative in alternatives(found[1]):
                if alternative[:1] not in ("", '"', "'") and (reason := _problem(alternative)):
                    yield f"{found[0][:80]}: {reason}"


def path_problem(path: str) -> str:
    """Return why a path can never lead to a value, "" if it may."""
    return _problem(path.strip()) or ("" if parse_path(path.strip()) else "it is not a path")


def _problem(alternative: str) -> str:
    if call := _CALL.match(alternative):
        return (
            f'there is no function "{call["name"][:40]}"; a value is a path, such as '
            "request.path.id, and gen of a responseSchema makes new ones"
        )
    steps = parse_path(alternative)
    return _unknown_step(*map(str, steps[:2])) if steps else ""


def _unknown_step(root: str, name: str = "") -> str:
    """Return which of the first two steps of a path is not known, "" if both are."""
    if root not in _ROOTS:
        return f'"{root[:40]}" is not known; {nearest_advice(root, _ROOTS)}'
    known = _ROOTS[root]
    if not known or name in known:
        return ""
    if not name:
        return f"{root} needs a member: {', '.join(known)}"
    return f'{root} has no "{name[:40]}"; {nearest_advice(name, known)}'
