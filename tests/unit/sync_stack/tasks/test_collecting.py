"""The garbage collector in a process that executes tasks."""

from __future__ import annotations

import gc

import pytest

from sync_stack.orchestrator.server.ports import collect_garbage_rarely


@pytest.fixture
def _as_before():
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("_as_before")
def test_the_collector_looks_seldom_but_still_looks():
    gc.set_threshold(700, 10, 10)

    collect_garbage_rarely()

    assert gc.isenabled()
    assert gc.get_threshold() == (50_000, 10, 10)


@pytest.mark.usefixtures("_as_before")
def test_a_process_that_collects_as_seldom_already_is_left_alone():
    gc.set_threshold(90_000, 3, 3)

    collect_garbage_rarely()

    assert gc.get_threshold() == (90_000, 3, 3)
