"""The engine `platform_site.postgresql`.

The pool's own check pauses 1, 2, 4 … s between one dead connection and the next, so that after a
restart of the server a process with eight idle ones answered nothing for 10 s. Here the first
dead one empties the pool.
"""

from __future__ import annotations

from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool


class DatabaseWrapper(base.DatabaseWrapper):
    # of Django's class, one pool an alias for the whole process; its type stubs leave both out
    _connection_pools: dict[str, ConnectionPool]
    _configure_connection: Any

    @property
    def pool(self) -> ConnectionPool | None:
        options = self.settings_dict["OPTIONS"].get("pool")
        if options and self.alias not in self._connection_pools:
            self._connection_pools.setdefault(self.alias, self._new_pool(options))
        found: ConnectionPool | None = super().pool
        return found

    def _new_pool(self, options: dict[str, Any]) -> ConnectionPool:
        def check(connection: psycopg.Connection[Any]) -> None:
            try:
                ConnectionPool.check_connection(connection)
            except psycopg.Error:
                pool.drain()
                raise

        pool = ConnectionPool(
            kwargs=self.get_connection_params() | {"autocommit": True},
            open=False,
            configure=self._configure_connection,
            check=check,
            **options,
        )
        return pool
