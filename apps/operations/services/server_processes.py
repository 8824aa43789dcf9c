"""The control-plane processes that live, where no Redis connects them.

Each writes when it was last alive; who asks counts the recent ones.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import Final

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from apps.operations.models import ServerProcess
from kernel import clock, ids
from kernel.background import PeriodicThread, report_error

EACH_S: Final = 5.0
LIVES_FOR: Final = timedelta(seconds=16)
FORGOTTEN_AFTER: Final = timedelta(hours=1)
logger = logging.getLogger("partita.system")


class Presence:
    """Says that this process lives, from `start()` to `stop()`."""

    def __init__(self, *, each_s: float = EACH_S) -> None:
        self._id = ids.new_uuid()
        self._each_s = each_s
        self._first = True
        self._ended = threading.Event()
        self._thread = PeriodicThread(
            "presence",
            self.note,
            self._wait,
            ended=self._ended,
            after_failure=close_old_connections,
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(5)

    def note(self) -> None:
        """Write that this process lives now; while the store is away, only report that."""
        now = clock.now()
        try:
            if not ServerProcess.objects.filter(id=self._id).update(seen_at=now):
                ServerProcess.objects.create(id=self._id, seen_at=now)
                ServerProcess.objects.filter(seen_at__lt=now - FORGOTTEN_AFTER).delete()
        except (DatabaseError, InterfaceError) as error:
            logger.debug("this process could not be noted: %s", error)
            report_error()
            close_old_connections()

    def leave(self) -> None:
        """Delete the row of this process, so that it no longer counts as running."""
        try:
            ServerProcess.objects.filter(id=self._id).delete()
        except (DatabaseError, InterfaceError) as error:
            logger.debug("this process could not be removed: %s", error)
        finally:
            connection.close()

    def _wait(self) -> bool:
        first, self._first = self._first, False
        if first:
            return False
        if self._ended.wait(self._each_s):
            self.leave()
            return True
        return False


def living_servers() -> int:
    """Return how many control-plane processes were alive a moment ago."""
    return ServerProcess.objects.filter(seen_at__gte=clock.now() - LIVES_FOR).count()
