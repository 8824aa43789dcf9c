"""How long the engines of the store wait for it where somebody waits for the answer."""

from __future__ import annotations

from django.apps import apps

from platform_site.settings.store import ANSWER_S


def answer_limit_s() -> float | None:
    """ANSWER_S where a request or a probe of the control plane waits, else None.

    The sync stack has the same engines and none of the control plane's apps.
    """
    if not apps.is_installed("apps.system"):
        return None
    from apps.system.api import is_awaited  # not before the apps are ready

    return ANSWER_S if is_awaited() else None
