"""How long the engines of the store wait for it where somebody waits for the answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from django.apps import apps

from platform_site.settings.store import ANSWER_S


def answer_limit_s() -> float | None:
    """Return ANSWER_S where a request or a probe of the control plane waits, else None."""
    return ANSWER_S if _is_awaited()() else None


@cache
def _is_awaited() -> Callable[[], bool]:
    """Bind once, at a process's first query: every wait for the store asks.

    Not before the apps are ready, and then nothing is remembered: the engines are imported first.
    The sync stack has the same engines and none of the control plane's apps.
    """
    if not apps.is_installed("apps.operations"):
        return lambda: False
    from apps.observability.api import is_awaited

    return is_awaited
