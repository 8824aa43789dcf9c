"""The engine `platform_site.postgresql`.

The pool's own check pauses 1, 2, 4 … s between one dead connection and the next, so that after a
restart of the server a process with eight idle ones answered nothing for 10 s. Here the first
dead one empties the pool.

A server that is stopped by a signal, or behind a network that drops packets, says nothing and
closes nothing: no setting of the server ends that wait, so it ends here.

django-prometheus counts and times the statements (decision 0076).
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import psycopg
from django_prometheus.db.backends.postgresql import base
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from platform_site.settings.store import answer_limit_s

RV = TypeVar("RV")
CHECK_S: Final = 0.8  # for an idle connection to answer; the rest of ANSWER_S is for a new one
PATIENT_CHECK_S: Final = 5.0  # where nobody waits


class BoundedConnection(psycopg.Connection[Any]):
    """Every wait for the server is bounded while somebody waits for the answer.

    A wait that took too long closes the connection: its state is unknown from then on.
    """

    _check_s: float | None = None  # during a check

    def check(self) -> None:
        """Raise psycopg.Error when the server does not answer."""
        self._check_s = PATIENT_CHECK_S if answer_limit_s() is None else CHECK_S
        try:
            self.execute("")
        finally:
            self._check_s = None

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        limit_s = timeout or self._check_s or answer_limit_s()
        try:
            return super().wait(gen, interval, limit_s)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise


class BoundedPool(ConnectionPool[BoundedConnection]):
    def getconn(self, timeout: float | None = None) -> BoundedConnection:
        """Return a connection that answers; raises PoolTimeout."""
        return super().getconn(timeout or answer_limit_s())


class DatabaseWrapper(base.DatabaseWrapper):
    # of Django's class, one pool an alias for the whole process; its type stubs leave both out
    _connection_pools: dict[str, ConnectionPool[Any]]
    _configure_connection: Any

    @property
    def pool(self) -> ConnectionPool[Any] | None:
        options = self.settings_dict["OPTIONS"].get("pool")
        if options and self.alias not in self._connection_pools:
            self._connection_pools.setdefault(self.alias, self._new_pool(options))
        found: ConnectionPool[Any] | None = super().pool
        return found

    def _new_pool(self, options: dict[str, Any]) -> ConnectionPool[Any]:
        def check(connection: BoundedConnection) -> None:
            try:
                connection.check()
            except psycopg.Error:
                pool.drain()
                raise

        pool = BoundedPool(
            connection_class=BoundedConnection,
            kwargs=self.get_connection_params() | {"autocommit": True},
            open=False,
            configure=self._configure_connection,
            check=check,
            **options,
        )
        return pool
