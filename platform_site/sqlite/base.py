"""The engine `platform_site.sqlite`: who waits for an answer waits for a lock only briefly."""

from __future__ import annotations

from typing import Any

from django.db.backends.sqlite3 import base

from platform_site.settings.store import ANSWER_S


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Open the file; a request and a probe have a connection of their own thread."""
        from apps.system.api import is_awaited  # not before the apps are ready

        limited = {"timeout": ANSWER_S} if is_awaited() else {}
        return super().get_new_connection({**conn_params, **limited})
