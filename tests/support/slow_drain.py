"""The control plane whose drain takes long enough to be looked at on a busy machine."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from platform_site.asgi import application

NOTICE_S: Final = 6.0
setattr(import_module("apps.http.asgi"), "DRAIN_NOTICE_S", NOTICE_S)  # noqa: B010 - read when a drain begins

__all__ = ["application"]
