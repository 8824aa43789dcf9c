"""`partita environment`: what it prints, asks and returns."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest
from django.core.management import call_command

from apps.operations.api import ExitCode
from tests.apps.environments.conftest import RunnerOfLoops
from tests.apps.executions_rest.conftest import Caller
from tests.support.resources import EngineInMemory, resource

RUN = "run-000000000001"


@pytest.fixture(autouse=True)
def _filled(
    engine: EngineInMemory, start_runner: Callable[..., RunnerOfLoops], admin: Caller
) -> None:
    assert admin.user.is_admin
    engine.put(resource(), resource("volume", "ws"))
    start_runner(engine)


def run(*words: str) -> int:
    """The exit code."""
    try:
        call_command("environment", *words)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_list_and_show_tell_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == ExitCode.OK
    listed = capsys.readouterr().out
    assert run("show", RUN) == ExitCode.OK
    shown = capsys.readouterr().out
    assert run("list", "--status", "Zombie", "-o", "json") == ExitCode.OK
    document = json.loads(capsys.readouterr().out)

    assert RUN in listed
    assert "1 containers, 0 networks, 1 volumes" in listed
    assert "container" in shown
    assert "store" in shown
    assert document["sandboxes"] == []


def test_what_is_not_there_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "run-ffffffffffff") == ExitCode.NOT_FOUND
    assert run("reap", "run-ffffffffffff", "--yes") == ExitCode.NOT_FOUND
    assert "environment not found" in capsys.readouterr().err


def test_a_dry_run_removes_nothing(
    engine: EngineInMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("reap", RUN, "--dry-run") == ExitCode.OK
    assert run("reap-all", "--zombies", "--dry-run", "-o", "json") == ExitCode.OK

    first, document = capsys.readouterr().out.split("\n", 1)
    assert first == "would remove 1 containers, 0 networks, 1 volumes"
    assert json.loads(document)["removedContainers"] == 0
    assert len(engine.names()) == 2


def test_where_nobody_can_answer_it_wants_yes(
    engine: EngineInMemory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())

    assert run("reap-all") == ExitCode.ERROR
    assert "--yes" in capsys.readouterr().err
    assert len(engine.names()) == 2


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("\n", 2), ("no\n", 2)])
def test_on_a_terminal_it_shows_the_plan_and_asks(
    engine: EngineInMemory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    left: int,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(answer))

    assert run("reap", RUN) == ExitCode.OK

    assert "would remove 1 containers" in capsys.readouterr().err
    assert len(engine.names()) == left


def test_what_could_not_be_removed_is_an_error_and_said(
    engine: EngineInMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.stuck = {"ws"}

    assert run("reap", RUN, "--yes") == ExitCode.ERROR

    printed = capsys.readouterr()
    assert printed.out == "removed 1 containers, 0 networks, 0 volumes\n"
    assert "volume ws could not be removed" in printed.err
