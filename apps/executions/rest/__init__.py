"""What the streams of other apps are made of, besides `apps.streams.api`."""

from __future__ import annotations

from apps.executions.rest.consumer import TOO_BIG, StreamConsumer
from apps.executions.rest.streams import (
    describe_stream,
    on_request_thread,
    only_get,
    stream_response,
)
