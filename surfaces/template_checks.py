"""Templates of mock files, checked when they are read (reference: control-plane 18.6)."""

from __future__ import annotations

from collections.abc import Iterator

from readers import Unreadable
from readers.json import read_json
from readers.tree import Kind, Tree
from surfaces.template_expressions import calls_function, path_problem, template_problems


def check_templates(*trees: Tree | None) -> None:
    """Raise Unreadable at the first text whose template names an unknown path or function."""
    for tree in trees:
        for _, each in tree.walk() if tree is not None else ():
            texts = (*each.pairs, each.text if each.kind is Kind.STRING else "")
            _check(each, (text for text in texts if "{{" in text))


def check_keys(*trees: Tree | None) -> None:
    """Raise Unreadable as check_templates does, and for a counter: keys are read, not counted."""
    check_templates(*trees)
    for tree in trees:
        if tree is not None and calls_function(tree.text, "counter"):
            raise _unreadable(tree, "a key of state has no counter; use it in a response or set")


def check_body(tree: Tree) -> None:
    """Raise Unreadable as check_templates does; in a text that is JSON, its strings are meant."""
    if tree.kind is Kind.STRING and "{{" in tree.text:
        _check(tree, _texts_of_body(tree.text))
    else:
        check_templates(tree)


def check_path(tree: Tree | None) -> None:
    """Raise Unreadable for a text that is not a path of templates."""
    if tree is not None and (reason := path_problem(tree.text)):
        raise _unreadable(tree, f"the path {tree.text[:80]}: {reason}")


def _check(at: Tree, texts: Iterator[str]) -> None:
    for text in texts:
        for reason in template_problems(text):
            raise _unreadable(at, reason)


def _texts_of_body(text: str) -> Iterator[str]:
    try:
        waiting = [read_json(text.encode(errors="replace"))]
    except Unreadable:
        yield text
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value


def _unreadable(at: Tree, reason: str) -> Unreadable:
    return Unreadable(reason, line=at.line or None, column=at.column or None)
