"""Figures of the tree only fall (limits: [tool.partita.figures] in pyproject.toml)."""

from __future__ import annotations

import ast

import pytest

from tests.architecture import figures


def test_each_figure_has_one_limit() -> None:
    assert figures.read_limits().keys() == figures.FIGURES.keys()


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_figure_does_not_rise(name: str) -> None:
    found, limit = figures.measure(name), figures.read_limits()[name]

    places = "\n".join(found)
    assert len(found) <= limit, f"{name}: {len(found)}, the limit is {limit}\n{places}"


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_figure_that_fell_stays_there(name: str) -> None:
    found, limit = len(figures.measure(name)), figures.read_limits()[name]

    assert found >= limit, (
        f"{name} fell to {found}, and its limit is still {limit}: run "
        "`python -m tests.architecture.figures --lower` and commit pyproject.toml"
    )


@pytest.mark.parametrize(
    ("source", "is_counted"),
    [
        ("def checked(rows): ...", True),
        ("async def _told(rows): ...", True),
        ("def check(rows): ...", False),
        ("def checked(rows) -> bool: ...", False),
        ("def changed_rows(rows): ...", False),
        ("def feed(rows): ...", False),
        ("@property\ndef closed(self): ...", False),
    ],
)
def test_a_participle_is_told_from_a_verb(source: str, *, is_counted: bool) -> None:
    node = ast.parse(source).body[0]
    assert isinstance(node, figures.Function)

    assert figures.is_participle(node) is is_counted
