"""Streams: append-only topics in the store, units of work, nudges, and SSE over one hub.

Does not know what the records mean. Of the other apps, it imports `operations` and `observability`.
"""

from __future__ import annotations

from apps.operations.api import DatastoreUnavailable
from apps.streams.domain.chunks import Batch, Chunk
from apps.streams.domain.sse_frames import refusal_frame, resume_after
from apps.streams.selectors import iterate, last_ids, read, tail
from apps.streams.services.feeds import ViewOver
from apps.streams.services.followers import follow, snapshot_stream
from apps.streams.services.nudges import has_nudges_of_others, listen, nudge, wake
from apps.streams.services.responses import guard_frames, resume_point, sse_response
from apps.streams.services.shared_stream import merge
from apps.streams.services.store_loop import StoreLoop
from apps.streams.services.topics import (
    TopicNotOpen,
    append,
    close_topic,
    delete_topics,
    open_topics,
    trim_topic,
)
from apps.streams.services.unit_of_work import (
    LostRace,
    on_store_thread,
    release_stale_connection,
    then_disconnect,
    unit_of_work,
)
