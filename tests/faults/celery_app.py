"""A Celery application on the platform's Redis transport with a task that lasts as long as told.

BROKER_URL names its broker.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

TRANSPORT_ALIASES["redis"] = "platform_site.redis_transport:Transport"
app = Celery("held", broker=os.environ.get("BROKER_URL"))
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={"socket_timeout": 1, "socket_connect_timeout": 1},
)


@app.task(name="hold")
def hold(path: str, seconds: float) -> None:
    """Create `path.begun`, wait, create `path.ended`."""
    Path(f"{path}.begun").touch()
    time.sleep(seconds)
    Path(f"{path}.ended").touch()
