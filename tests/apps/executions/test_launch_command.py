"""`run launch` with a concurrency group, as people type it."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.executions.models import Execution
from tests.apps.executions.runs import Worker
from tests.apps.executions.test_launching import PROFILE, SUITE, write_suite
from tests.apps.executions.test_rerun_command import command
from tests.support.client_views import ask_views

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _suite(settings, monkeypatch: pytest.MonkeyPatch, worker: Worker) -> Path:
    ask_views(monkeypatch)
    return write_suite(settings.SUITES_DIR, "hello", SUITE, {"ci.yaml": PROFILE})


def test_a_newer_run_of_a_group_cancels_the_one_before(capsys):
    words = ("launch", "hello", "--concurrency-group", " main ", "--cancel-in-progress")

    assert [command(capsys, *words)[0] for _ in range(2)] == [0, 0]

    older, newer = Execution.objects.order_by("started_at")
    assert (older.status, newer.status) == ("Canceled", "Queued")
    assert (newer.concurrency_group, newer.cancel_in_progress) == ("main", True)


@pytest.mark.parametrize(
    ("words", "ends", "says"),
    [
        (("--cancel-in-progress",), 2, "--cancel-in-progress needs --concurrency-group"),
        (("--concurrency-group", " ", "--cancel-in-progress"), 2, "needs --concurrency-group"),
        (("--concurrency-group", "x" * 129), 1, "concurrency/group"),
    ],
)
def test_what_it_cannot_do_is_said_by_the_option(capsys, words: tuple[str, ...], ends, says):
    code, _, error = command(capsys, "launch", "hello", *words)

    assert (code, says in error) == (ends, True), error
    assert not Execution.objects.exists()
