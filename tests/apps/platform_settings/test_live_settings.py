"""The settings in force while the store is away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError

from apps.platform_settings.services import live_settings as module
from apps.platform_settings.services.live_settings import LiveSettings
from kernel import background
from kernel.background import PeriodicThread
from tests.support.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ended() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_loop_that_keeps_getting_the_last_settings_is_failing(
    ended: threading.Event, monkeypatch: pytest.MonkeyPatch
):
    """The error is caught here, far below the loop, and named all the same."""
    monkeypatch.setattr(background, "PERSISTENT_S", 0.1)
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)
    settings = LiveSettings()
    known = settings.snapshot()
    is_away = threading.Event()
    is_away.set()

    def revision() -> Any:
        if is_away.is_set():
            raise OperationalError("database is locked")
        return known.revision

    monkeypatch.setattr(module, "stored_revision", revision)
    seen: list[object] = []
    thread = PeriodicThread(
        "test-settings",
        lambda: seen.append(settings.snapshot()),
        lambda: ended.wait(0.02),
        ended=ended,
    )
    thread.start()

    until(lambda: "test-settings" in background.failing(), within_s=30)
    assert set(map(id, seen)) == {id(known)}
    is_away.clear()
    until(lambda: "test-settings" not in background.failing(), within_s=30)
