"""Keys of the files of mock/ that mean nothing there: most likely a slip of the pen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from readers.diagnostics import nearest_advice
from readers.tree import Kind, Tree
from surfaces.mock_files.text_maps import HEADER_KEYS
from surfaces.mock_files.value_nodes import NODE_KEYS, is_literal
from surfaces.trees import NOTHING, items, member, members

UNKNOWN_KEY: Final = "unknown_key"
MAX_UNKNOWN: Final = 20  # keys of one file
_SPEC: Final = (
    "protocol", "adapter", "method", "path", "summary", "contractPath", "mockPath", "dispatcher",
    "dispatcherRules", "delayMillis", "delay", "fault", "rateLimit", "parameterConstraints",
    "fallback", "state", "resolverUrl", "runtimeUrl", "validate",
)  # fmt: skip
_BELOW: Final[Mapping[str, tuple[str, ...]]] = {
    "parameterConstraints": ("name", "source", "required", "forward", "pattern"),
    "fallback": (
        "mode", "exampleName", "proxyUrl", "status", "mediaType", "headers", "body",
    ),
    "state": ("lookupKeyTemplate", "mutationKeyTemplate", "defaults", "transitions"),
    "transitions": ("onExample", "mutationKeyTemplate", "set", "delete", "increment"),
}  # fmt: skip
_EXAMPLE: Final = (
    "name", "when", "dispatch", "request", "requestSchema", "response", "responseSchema",
    "requestHeaders", "requestBody", "responseStatus", "responseMediaType", "responseHeaders",
    "responseBody", "responseBodyBase64", "callbacks", "summary", "description", "sourceArtifact",
)  # fmt: skip
_REQUEST: Final = ("headers", "body", "method", "path", "query", "mediaType")
_RESPONSE: Final = ("status", "mediaType", "headers", "body", "fault", "delayMillis", "delay")
_MESSAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "request": _REQUEST,
    "requestSchema": _REQUEST,
    "response": (*_RESPONSE, "bodyFile", "bodyBase64"),
    "responseSchema": _RESPONSE,
}
_NOTES: Final = (*NODE_KEYS, "title", "description", "default", "examples", "deprecated")
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


def unknown_surface_keys(document: Tree) -> Iterator[tuple[str, Tree]]:
    """Yield what is wrong and where in a file of a surface."""
    yield from _unknown(document, "a MockSurface", ("apiVersion", "kind", "metadata", "spec"))
    yield from _unknown(member(document, "metadata") or NOTHING, "metadata", ("surface",))
    yield from _unknown(member(document, "spec") or NOTHING, "spec", ("validate", "rateLimit"))


def unknown_example_keys(example: Tree) -> Iterator[tuple[str, Tree]]:
    """Yield what is wrong and where in one example: its parts and nodes, not its conditions."""
    yield from _unknown(example, "an example", _EXAMPLE)
    for name, known in _MESSAGES.items():
        message = member(example, name) or NOTHING
        yield from _unknown(message, name, known)
        if name.endswith("Schema"):
            headers = member(message, "headers") or NOTHING
            for each in headers.items:  # a list of names and values, or of names and nodes
                yield from _unknown(each, "a header", (*HEADER_KEYS, *_NOTES))
            yield from _unknown_in_node(headers if headers.kind is Kind.MAP else NOTHING)
            yield from _unknown_in_node(member(message, "body") or NOTHING)


def _unknown_in_node(node: Tree) -> Iterator[tuple[str, Tree]]:
    if is_literal(node):
        known = [key.lower() for key in NODE_KEYS]
        near = [get_close_matches(key.lower()[:40], known, 1, 0.75) for key in node.pairs]
        if near and all(near):
            yield from _unknown(node, "a node", _NOTES)
        for each in (*node.pairs.values(), *node.items):
            yield from _unknown_in_node(each)
        return
    yield from _unknown(node, "a node", _NOTES)
    for _, each in members(member(node, "properties")):
        yield from _unknown_in_node(each)
    yield from _unknown_in_node(member(node, "items") or NOTHING)


def _unknown(tree: Tree, place: str, known: tuple[str, ...]) -> Iterator[tuple[str, Tree]]:
    folded = {key.lower() for key in known}
    for name, value in members(tree):
        if name.lower() in folded:
            continue
        advice = nearest_advice(name, known)
        yield f'{place} has no key "{name[:40]}", which is ignored; {advice}', value
