"""A watched run on a terminal: its lines scroll, its steps stand below them, and go at the end."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_partita import RUN, TOKEN, FakePartita, Relay, detail, event_of
from tests.support.processes import ROOT
from tests.support.screens import ProgramOnScreen, on_screen

Watch = Callable[..., AbstractContextManager[ProgramOnScreen]]
ENDED = "✗ Shop: Failed after 00:19  check exited with code 3"


def step(name: str, status: str = "pending", *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": name, "kind": "task", "status": status, "attempt": 0,
            "duration": "00:00", "dependsOn": list(needs), "onFailure": []} | more  # fmt: skip


@pytest.fixture
def running(fake: FakePartita) -> Iterator[FakePartita]:
    """A run of three steps that has begun: the first one runs in its second attempt."""
    steps = [step("db"), step("seed", "pending", "db"), step("check", "pending", "db", "seed")]
    fake.detail = detail(
        status="Booting", lastEventId=2, steps=steps, startedAt="2026-11-24T17:05:33.000Z"
    )
    fake.events = [
        event_of("db", "queued", "queued"), event_of("db", "claimed", "running", attempt=2)
    ]  # fmt: skip
    fake.is_over = False
    yield fake
    end_run(fake)


def end_run(fake: FakePartita) -> None:
    fake.detail = detail(attempts=[])
    fake.is_over = True


@pytest.fixture
def watch(tmp_path: Path, running: FakePartita) -> Watch:
    def open_watch(*words: str, **more: Any) -> AbstractContextManager[ProgramOnScreen]:
        argv = [sys.executable, str(ROOT / "partita_program.py"), "run", "watch", RUN, *words]
        known = {"PARTITA_URL": running.url, "PARTITA_TOKEN": TOKEN, "PARTITA_KEYRING": "off"}
        return on_screen(argv, tmp_path, **(known | more))

    return open_watch


def test_the_steps_stand_below_the_lines_and_are_gone_at_the_end(
    watch: Watch, running: FakePartita
):
    with watch() as program:
        shown = program.await_text(r"line 3(.|\n)*check +pending +waits for db, seed")
        assert re.search(r"^Shop Booting  00:\d\d$", shown, re.MULTILINE)
        assert re.search(r"^ ● db +running +00:0\d  attempt 2$", shown, re.MULTILINE)

        running.events += [event_of("db", "healthy", "healthy", attempt=2)]
        running.events += [event_of("seed", "claimed", "running")]
        running.lines = 6
        shown = program.await_text(r"^ ● seed +running")
        program.await_text("line 6")
        assert re.search(r"^ ✓ db +healthy +00:0\d  attempt 2$", shown, re.MULTILINE)
        assert re.search(r"^ · check +pending +waits for seed$", shown, re.MULTILINE)

        end_run(running)
        assert program.await_end() == 10

    lines = program.screen.lines
    assert lines[0].startswith(f"{RUN}  http://localhost:")
    assert [line[-6:] for line in lines[1:7]] == [f"line {number}" for number in range(1, 7)]
    assert lines[7] == " ✗ check exited with code 3"
    assert ENDED in lines
    assert "waits for" not in program.screen.text


def test_ctrl_c_removes_the_steps_and_says_how_to_come_back(watch: Watch):
    with watch() as program:
        program.await_text("waits for")
        program.type(b"\x03")
        assert program.await_end() == 14

    assert "waits for" not in program.screen.text
    assert f"look again: partita run watch {RUN}" in program.screen.text.replace("\n", "")


def test_a_kill_removes_the_steps_and_ends_it(watch: Watch):
    with watch() as program:
        program.await_text(r"line 3(.|\n)*waits for")
        program.send(signal.SIGTERM)
        assert program.await_end() == -signal.SIGTERM

    assert "waits for" not in program.screen.text
    assert program.screen.lines[-1].endswith("line 3")


def test_an_error_on_the_way_removes_the_steps(watch: Watch, running: FakePartita):
    with watch() as program:
        program.await_text("waits for")
        running.line = {"source": 7}  # no server of Partita sends that
        running.lines = 4
        assert program.await_end() == 6

    assert "waits for" not in program.screen.text
    assert "answered in another shape" in program.screen.text


def test_after_a_stop_the_steps_are_drawn_below_what_was_written_meanwhile(watch: Watch):
    with watch() as program:
        program.await_text("waits for")
        program.send(signal.SIGSTOP)
        program.screen.feed("\r\n[1]+ Stopped\r\n$ fg\r\n")
        program.send(signal.SIGCONT)
        shown = program.await_text(r"\$ fg\n(.|\n)*waits for db, seed")

    assert "[1]+ Stopped" in shown


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (["--plain"], {}),
        ([], {"TERM": "dumb"}),
        ([], {"TERM": ""}),
        ([], {"CI": "true"}),
        (["-o", "json"], {}),
    ],
    ids=["--plain", "a dumb terminal", "an unknown terminal", "CI", "for programs"],
)
def test_lines_alone_are_written_where_nobody_looks_at_a_terminal(
    watch: Watch, running: FakePartita, words: list[str], variables: dict[str, str]
):
    with watch(*words, **variables) as program:
        program.await_text("line 3")
        end_run(running)
        assert program.await_end() == 10

    assert running.count(f"GET /api/v1/executions/{RUN}/events") == 0


def test_without_colors_the_steps_are_shown(watch: Watch, running: FakePartita):
    with watch(NO_COLOR="1") as program:
        program.await_text("waits for")
        end_run(running)
        assert program.await_end() == 10

    assert b"\x1b[J" in program.sent
    assert not re.search(rb"\x1b\[[0-9;]*m", program.sent)


def test_a_small_terminal_has_the_urgent_steps_and_counts_the_others(
    watch: Watch, running: FakePartita
):
    running.detail["steps"] = [step(f"step-{number}-of-many", "healthy") for number in range(30)]
    running.detail["steps"] += [step("db"), *(step(f"later-{number}") for number in range(9))]
    with watch(columns=34, rows=12) as program:
        shown = program.await_text("… and")
        rows = shown.split("Shop Booting")[1].splitlines()
        assert len(rows) <= 6
        assert re.search(r"^ ● db +running", shown, re.MULTILINE)
        assert re.search(r"^   … and \d+ more: \d pending, …$", shown, re.MULTILINE), shown

        program.resize(110, 40)
        program.await_text(r"… and \d+ more: \d+ healthy$")
        end_run(running)
        program.await_end()

    assert "… and" not in program.screen.text


def test_a_run_that_is_over_has_no_steps_to_wait_for(watch: Watch, running: FakePartita):
    end_run(running)
    with watch() as program:
        assert program.await_end() == 10

    assert running.count(f"GET /api/v1/executions/{RUN}/events") == 0
    assert b"\x1b[J" not in program.sent


def test_text_of_the_server_never_drives_the_terminal(watch: Watch, running: FakePartita):
    """The screen fails for each sequence but those of the table."""
    running.detail |= {"suiteTitle": "Sh\x1b[2Jop\x07"}
    running.detail["steps"][1]["id"] = "se\x1b]0;owned\x07ed\n"
    running.events += [event_of("db", "waiting", "running", text="no\x1b[?1049h\tnode\u009b2J")]
    running.line = {"text": "a\x1b[5A\x1b]52;c;x\x07b"}
    with watch() as program:
        shown = program.await_text("no[?]\\[[?]1049h node[?]2J")
        end_run(running)
        program.await_end()

    assert "Sh?[2Jop?" in shown


def test_a_server_without_events_has_lines_and_no_table(watch: Watch, running: FakePartita):
    running.events[1] = {"source": 4}
    with watch() as program:
        program.await_text("line 3")
        running.lines = 5
        program.await_text("line 5")
        end_run(running)
        assert program.await_end() == 10


def test_lines_come_once_through_cuts_and_a_note_stands_above_the_steps(
    watch: Watch, running: FakePartita
):
    running.lines = 1000
    relay = Relay(int(running.url.rpartition(":")[2]), cuts=6, after_bytes=40_003)
    with watch(PARTITA_URL=f"http://127.0.0.1:{relay.port}", rows=20) as program:
        program.await_text(r"line 1000(.|\n)*waits for db, seed")
        end_run(running)
        assert program.await_end() == 10

    relay.close()
    found = [int(each) for each in re.findall(r"line (\d+)$", program.screen.text, re.MULTILINE)]
    assert found == list(range(1, 1001))
    assert relay.accepted > 6
    assert "waits for db" not in program.screen.text


@pytest.mark.slow
def test_a_hundred_thousand_lines_cost_little(watch: Watch, running: FakePartita):
    running.lines = 100_000
    with watch() as program:
        program.await_text(r"line 100000(.|\n)*waits for db, seed")
        end_run(running)
        assert program.await_end() == 10

    found = re.findall(r"line (\d+)$", program.screen.text, re.MULTILINE)
    assert list(map(int, found)) == list(range(1, 100_001))
