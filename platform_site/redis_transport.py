"""kombu's Redis transport, mended where a broker that goes away ends or starves a worker.

Two defects of kombu 5.7 and Celery 5.7, each kept by a test in tests/faults/test_celery_worker.py:

- A worker that polls while a task is under way closes its broken channel twice. The second time the
  transport has no connection, kombu raises AttributeError, and Celery ends the worker.
- An acknowledgment that fails leaves its message among those delivered. Once as many failed as the
  worker may fetch at a time, it fetches no message until it is restarted. One that the broker
  refuses (read-only after a failover, disk full) ends the worker.

The message stays with the broker, which delivers it again after its visibility timeout: tasks are
idempotent. Not imported before a connection to Redis is made: see `platform_site.celery`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from kombu.transport import redis, virtual

log: Final = logging.getLogger(__name__)


class QoS(redis.QoS):
    """The messages that a channel has delivered and nobody has acknowledged."""

    channel: Any
    _delivered: Any
    _on_collect: Any

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message; it no longer counts as fetched even if the broker is not told.

        Raises a connection error of the transport in that case.
        """
        self._settle(delivery_tag, super().ack)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:  # noqa: FBT001, FBT002
        """Reject a message, as `ack` acknowledges one."""
        self._settle(delivery_tag, lambda tag: super(QoS, self).reject(tag, requeue=requeue))

    def _settle(self, delivery_tag: str, tell_broker: Callable[[str], None]) -> None:
        reason = "the connection is closed"
        if not self._transport_is_closed():
            try:
                tell_broker(delivery_tag)
            except self.channel.connection_errors:
                virtual.QoS.ack(self, delivery_tag)
                raise
            except self.channel.ResponseError as error:
                reason = f"the broker refuses it: {type(error).__name__}"
            else:
                return
        virtual.QoS.ack(self, delivery_tag)
        log.warning("message %s stays in the broker: %s", delivery_tag, reason)

    def restore_unacked_once(self, stderr: Any = None) -> None:
        """Return unacknowledged messages to their queues, if the transport is still open."""
        if self._transport_is_closed():
            self._on_collect.cancel()
            self._delivered.clear()
            self._delivered.restored = True
            return
        super().restore_unacked_once(stderr)

    def _transport_is_closed(self) -> bool:
        transport = self.channel.connection
        return transport is None or transport.client is None


class Channel(redis.Channel):
    QoS = QoS


class Transport(redis.Transport):
    Channel = Channel
