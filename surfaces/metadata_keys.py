"""Keys of a mock metadata file that mean nothing there: most likely a slip of the pen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from readers.tree import Tree
from surfaces.reading import NOTHING, items, member, members

UNKNOWN_KEY: Final = "unknown_key"
_SPEC: Final = (
    "protocol", "adapter", "method", "path", "summary", "mockPath", "dispatcher",
    "dispatcherRules", "delayMillis", "parameterConstraints", "fallback", "state", "resolverUrl",
    "runtimeUrl",
)  # fmt: skip
_BELOW: Final[Mapping[str, tuple[str, ...]]] = {
    "parameterConstraints": ("name", "source", "required", "forward", "pattern"),
    "fallback": (
        "mode", "exampleName", "proxyUrl", "status", "mediaType", "headers", "body",
    ),
    "state": ("lookupKeyTemplate", "mutationKeyTemplate", "defaults", "transitions"),
    "transitions": ("onExample", "mutationKeyTemplate", "set", "delete", "increment"),
}  # fmt: skip
_FOLDED_SPEC: Final = {key.lower(): key for key in _SPEC}


def unknown_keys(document: Tree) -> Iterator[tuple[str, Tree]]:
    """Yield what is wrong and where: below `spec`, and what belongs there and is beside it.

    `metadata` may have any key.
    """
    for name, value in members(document):
        if known := _FOLDED_SPEC.get(name.lower()):
            yield f'"{known}" belongs below spec and is ignored here', value
    spec = member(document, "spec") or NOTHING
    yield from _unknown(spec, "spec", _SPEC)
    state = member(spec, "state") or NOTHING
    yield from _unknown(state, "state", _BELOW["state"])
    yield from _unknown(member(spec, "fallback") or NOTHING, "fallback", _BELOW["fallback"])
    for parent, name in ((spec, "parameterConstraints"), (state, "transitions")):
        for each in items(member(parent, name)):
            yield from _unknown(each, name, _BELOW[name])


def _unknown(tree: Tree, place: str, known: tuple[str, ...]) -> Iterator[tuple[str, Tree]]:
    folded = {key.lower(): key for key in known}
    for name, value in members(tree):
        if name.lower() in folded:
            continue
        near = get_close_matches(name.lower()[:40], folded, n=1)
        advice = f"did you mean {folded[near[0]]}?" if near else f"known: {', '.join(known)}"
        yield f'{place} has no key "{name[:40]}", which is ignored; {advice}', value
