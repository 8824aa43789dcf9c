"""How long the store's engines wait for it, asked at each of their waits."""

from __future__ import annotations

import builtins
from contextvars import Context, copy_context
from typing import Any

import pytest

from apps.observability.domain.request_context import RequestContext, enter_request
from platform_site.settings.store import ANSWER_S, answer_limit_s


def limit_of_a_request() -> float | None:
    enter_request(RequestContext())
    return answer_limit_s()


def test_the_wait_is_limited_where_a_request_waits():
    """Invariant 34."""
    assert copy_context().run(limit_of_a_request) == ANSWER_S
    assert Context().run(answer_limit_s) is None


def test_a_wait_for_the_store_imports_nothing(monkeypatch: pytest.MonkeyPatch):
    answer_limit_s()
    imported: list[str] = []
    of_python = builtins.__import__

    def spy(name: str, *arguments: Any, **options: Any) -> Any:
        imported.append(name)
        return of_python(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", spy)
    answer_limit_s()
    monkeypatch.undo()

    assert imported == []
