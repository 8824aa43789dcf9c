"""The engine `platform_site.sqlite`: who waits for an answer waits for a lock only briefly."""

from __future__ import annotations

from typing import Any

from django.db.backends.sqlite3 import base

from platform_site.settings.store import answer_limit_s


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Open the file; a request and a probe have a connection of their own thread."""
        limit = answer_limit_s()
        limited = {} if limit is None else {"timeout": limit}
        return super().get_new_connection({**conn_params, **limited})
