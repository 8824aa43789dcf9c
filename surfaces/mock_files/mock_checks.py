"""What metadata says about examples, checked against the examples that exist."""

from __future__ import annotations

from collections.abc import Iterator

from readers.diagnostics import nearest_advice
from readers.tree import Tree
from surfaces.forms import is_near
from surfaces.mock_files.dispatch_rules import named_examples
from surfaces.mock_files.metadata_files import INVALID, MetadataFile
from surfaces.model import Adapter, Exchange
from surfaces.samples import shown_media_type
from surfaces.trees import Warnings, items, member


def check_examples(
    mock: MetadataFile, exchanges: tuple[Exchange, ...], warnings: Warnings, adapter: Adapter
) -> tuple[str, ...]:
    """Warn of names without an example, and of examples that never answer.

    Return all problems of the mock. Subscribers of an async operation get every example.
    """
    known = {each.name for each in exchanges}
    problems = list(mock.problems)
    for where, name, at in _named_examples(mock):
        if name in known:
            continue
        is_told = not warnings.is_full and is_near(name, known)
        near = nearest_advice(name, known) if is_told else ""
        advice = f"; {near}" if near else ""
        reason = f'{where} names the example "{name[:80]}", which does not exist{advice}'
        warnings.add(INVALID, reason, mock.path, at)
        problems.append(reason)
    if mock.spec.dispatcher == "example" and adapter != "async":
        _warn_of_unreachable(exchanges, warnings, has_variants=adapter == "rest")
    return tuple(dict.fromkeys(problems))


def _named_examples(mock: MetadataFile) -> Iterator[tuple[str, str, Tree | None]]:
    spec, at = mock.spec, mock.at
    if spec.fallback and spec.fallback.mode == "example":
        named = member(member(at, "fallback"), "exampleName")
        yield "fallback", spec.fallback.example_name, named
    for name in named_examples(mock.rules):
        yield "dispatcherRules", name, member(at, "dispatcherRules")
    listed = items(member(member(at, "state"), "transitions"))
    for transition, tree in zip(spec.state.transitions if spec.state else (), listed, strict=False):
        if transition.on_example:
            yield "onExample", transition.on_example, member(tree, "onExample")


def _warn_of_unreachable(
    exchanges: tuple[Exchange, ...], warnings: Warnings, *, has_variants: bool
) -> None:
    """Warn of examples with the conditions of an earlier one, unless `Accept` tells them apart."""
    seen: dict[tuple[object, str], str] = {}
    for each in exchanges:
        kind = shown_media_type(each, each.response.body or "") if has_variants else ""
        first = seen.setdefault((frozenset(each.when), kind), each.name)
        if first != each.name:
            detail = f'"{each.name[:80]}" never answers: "{first[:80]}" has the same conditions'
            warnings.add_at("mock_unreachable_example", detail, each.source_artifact, each.line)
