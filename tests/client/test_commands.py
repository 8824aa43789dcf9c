"""`partita` against a server: outputs, exit codes, sign-in, and what a watch says at its end."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from django.core.management import load_command_class

from kernel.exit_codes import ExitCode
from kernel.version import VERSION
from partita_client.command.halves import StoreCommand
from partita_client.command.program import find_noun, run_words
from partita_client.contexts import SavedContext, read_contexts, save_context
from tests.support.fake_partita import (
    RUN,
    TOKEN,
    Answer,
    FakePartita,
    detail,
    problem,
    serve_fake,
    summary,
)

Said = tuple[int, str, str]


@pytest.fixture
def type_in(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run words as typed; return exit code, stdout and stderr."""

    def run(*words: str) -> Said:
        try:
            code = run_words(words)
        except SystemExit as ended:
            code = int(str(ended.code))
        assert not isinstance(code, StoreCommand), code
        said = capsys.readouterr()
        return int(code), said.out, said.err

    return run


Type = Callable[..., Said]


def test_help_is_a_dozen_lines_with_examples(type_in: Type):
    code, out, _ = type_in()

    assert code == 0
    assert len([line for line in out.splitlines() if line]) < 15
    assert "partita run why" in out


def test_runs_are_a_table_for_people(signed_in: FakePartita, type_in: Type):
    code, out, _ = type_in("run", "list")

    heads, row = (line.split() for line in out.splitlines())
    assert (code, heads[:6]) == (0, ["ID", "SUITE", "PROFILE", "STATUS", "TOOK", "AGE"])
    assert row[:5] == [RUN, "shop", "ci.yaml", "Failed", "00:19"]
    assert "STARTED" not in out
    assert "2026-11-24T17:05:33.000Z" in type_in("run", "list", "-o", "wide")[1]
    assert type_in("run", "list", "-o", "name")[1] == f"{RUN}\n"


READS = [
    ("run", "list"),
    ("run", "show", RUN),
    ("run", "why", RUN),
    ("run", "artifacts", RUN),
    ("suite", "list"),
    ("suite", "show", "shop"),
    ("profile", "list"),
    ("profile", "list", "shop"),
    ("profile", "show", "shop", "ci.yaml"),
    ("environment", "list"),
    ("catalog", "list"),
    ("catalog", "search", "shop"),
    ("context", "list"),
    ("context", "show"),
    ("whoami",),
    ("doctor",),
    ("version",),
    ("settings", "show"),
    ("settings", "registries", "test"),
    ("settings", "registries", "sync", "zot"),
    ("worker", "list"),
    ("worker", "status"),
    ("worker", "show", "edge"),
    ("mock", "state", "shop"),
    ("mock", "journal", "shop"),
    ("mock", "explain", "shop", "api", "GET", "/goods"),
    ("mock", "verify", "shop"),
]


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_every_read_is_one_document_for_programs(signed_in: FakePartita, type_in: Type, words):
    code, out, _ = type_in(*words, "-o", "json")
    assert code == 0
    document = json.loads(out)
    assert "\x1b" not in out

    assert yaml.safe_load(type_in(*words, "-o", "yaml")[1]).keys() == document.keys()


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_every_read_is_something_for_people(signed_in: FakePartita, type_in: Type, words):
    code, out, err = type_in(*words)

    assert code == 0
    assert out or err


def test_lists_are_a_document_a_line(signed_in: FakePartita, type_in: Type):
    signed_in.runs = [summary(f"run-{number:012x}") for number in range(3)]

    _, out, _ = type_in("run", "list", "-o", "ndjson")

    assert [json.loads(line)["id"] for line in out.splitlines()] == [
        run["id"] for run in signed_in.runs
    ]


def test_a_status_is_known_in_any_case(signed_in: FakePartita, type_in: Type):
    assert type_in("run", "list", "--status", "FAILED,green", "-o", "name")[1] == f"{RUN}\n"
    assert type_in("run", "list", "--status", "healthy", "-o", "name")[1] == ""


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("run", "show", RUN), RUN),
        (("run", "why", RUN), RUN),
        (("run", "wait", RUN), RUN),
        (("run", "keep", RUN, "--end"), RUN),
        (("run", "rerun", RUN, "--dry-run"), RUN),
        (("run", "cancel", RUN), RUN),
        (("whoami",), "ada@example.org"),
        (("context", "show"), None),
        (("environment", "show", "demo-1"), "demo-1"),
    ],
)
def test_each_verb_that_knows_names_prints_one(
    signed_in: FakePartita, type_in: Type, words: tuple[str, ...], name: str | None
):
    environment = {"sandboxId": "demo-1", "suite": "demo", "owner": "ada", "status": "Running"}
    signed_in.answers["GET /api/v1/sandboxes"] = lambda *_: (200, {"sandboxes": [environment]})
    for route in ("POST %s/cancel", "POST %s/rerun", "DELETE %s/keep"):
        signed_in.answers[route % f"/api/v1/executions/{RUN}"] = lambda *_: (
            200,
            {"id": RUN, "status": ""},
        )

    _, out, _ = type_in(*words, "-o", "name")

    assert out == f"{name or signed_in.url}\n"


def test_why_says_cause_cases_lines_changes_and_the_next_command(
    signed_in: FakePartita, type_in: Type
):
    code, out, _ = type_in("run", "why", RUN)

    assert code == 0
    for text in (
        "✗ check exited with code 3",
        "pays (shop): got 1",
        "│ expected 2, got 1",
        "image of db  a:1 → a:2",
        "✗ Shop: Failed after 00:19",
        f"next: partita run logs {RUN} --source check",
    ):
        assert text in out


def ended(status: str, **more: Any) -> dict[str, Any]:
    return detail(status=status, **more)


def lost_agent() -> dict[str, Any]:
    found = detail()
    found["steps"][1]["reason"] = "agent_lost"
    return found


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (ended("Healthy", steps=[]), ExitCode.OK),
        (ended("Failed"), ExitCode.RUN_FAILED),
        (lost_agent(), ExitCode.RUN_ERROR),
        (ended("Failed", reason="run_timeout", steps=[]), ExitCode.RUN_ERROR),
        (ended("Canceled"), ExitCode.RUN_CANCELED),
    ],
    ids=["healthy", "a step", "infrastructure", "the run's time", "canceled"],
)
@pytest.mark.parametrize("verb", ["watch", "wait", "show", "why"])
def test_the_exit_code_says_how_a_run_ended(
    signed_in: FakePartita, type_in: Type, verb: str, run: dict[str, Any], code: int
):
    signed_in.detail = run
    more = ["--exit-status"] if verb in ("show", "why") else []

    assert type_in("run", verb, RUN, *more)[0] == code


def test_a_server_without_runs_says_how_to_launch_one(signed_in: FakePartita, type_in: Type):
    signed_in.runs = []

    code, out, err = type_in("run", "list")

    assert (code, len(out.splitlines())) == (0, 1)
    assert err == ("no runs yet; next: partita suite list, then partita run launch SUITE --watch\n")


@pytest.mark.parametrize(
    "words", [("--search", "two words"), ("--suite", "x"), ("--status", "red")]
)
def test_a_filter_that_finds_nothing_is_not_an_empty_server(
    signed_in: FakePartita, type_in: Type, words: tuple[str, ...]
):
    signed_in.runs = []

    assert (
        type_in("run", "list", *words)[2]
        == "no run matches these filters; next: partita run list\n"
    )


def test_a_watch_shows_every_line_and_then_the_verdict(signed_in: FakePartita, type_in: Type):
    code, out, _ = type_in("run", "watch", RUN)

    assert code == ExitCode.RUN_FAILED
    assert out.startswith(f"{RUN}  {signed_in.url}/executions/{RUN}\n")
    assert [f"line {number}" in out for number in (1, 2, 3, 4)] == [True, True, True, False]
    assert out.rstrip().endswith("--source check")


def test_a_server_that_is_away_when_the_log_has_ended_is_waited_for(
    signed_in: FakePartita, type_in: Type, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("partita_client.transport.pause_s", lambda _failures: 0.01)
    asked_before_the_end = 1
    absences = 8

    def answer(fake: FakePartita, _query: Any, _body: Any) -> Answer:
        number = fake.count(f"GET /api/v1/executions/{RUN}")
        is_away = asked_before_the_end < number <= asked_before_the_end + absences
        return problem(503, "unavailable") if is_away else (200, fake.detail)

    signed_in.answers[f"GET /api/v1/executions/{RUN}"] = answer

    code, out, err = type_in("run", "watch", RUN)

    assert (code, "Failed" in out) == (10, True)
    assert err.count("waiting for the server") == 1


@pytest.mark.parametrize(
    "words", [("run", "watch", RUN), ("run", "wait", RUN), ("sync", "watch", "1")]
)
def test_no_watch_waits_for_a_host_that_nobody_knows(
    type_in: Type, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
):
    def look_up(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setenv("PARTITA_URL", "https://partita.exmaple")
    monkeypatch.setenv("PARTITA_SYNC_URL", "https://partita.exmaple")
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("partita_client.patience.UNKNOWN_HOST_S", 0.05)
    for module in ("transport", "patience"):
        monkeypatch.setattr(f"partita_client.{module}.pause_s", lambda _failures: 0.01)

    code, _, err = type_in(*words)

    assert code == 6
    assert "there is no host partita.exmaple (unknown)" in err
    assert "next: check the spelling of the address" in err


def test_a_watch_for_programs_has_one_document_on_stdout(signed_in: FakePartita, type_in: Type):
    _, out, err = type_in("run", "watch", RUN, "-o", "json")

    assert json.loads(out)["status"] == "Failed"
    assert "line 3" in err


def test_the_end_of_the_time_says_how_to_come_back(signed_in: FakePartita, type_in: Type):
    signed_in.is_over, signed_in.detail = False, detail(status="Booting")

    code, out, _ = type_in("run", "watch", RUN, "--timeout", "300ms")

    assert code == ExitCode.TIMEOUT
    assert f"look again: partita run watch {RUN}" in out


def test_ctrl_c_leaves_the_run_alone_and_says_how_to_come_back(
    signed_in: FakePartita, type_in: Type, monkeypatch
):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("partita_client.command.run_launches.output_line", interrupt)

    code, out, _ = type_in("run", "watch", RUN)

    assert code == ExitCode.STILL_RUNNING
    assert f"partita run cancel {RUN}" in out
    assert signed_in.count(f"POST /api/v1/executions/{RUN}/cancel") == 0


def test_a_launch_prints_the_id_for_scripts(signed_in: FakePartita, type_in: Type):
    words = ("--profile", "ci.yaml", "--keep", "30m", "--commit", "abc", "--trigger", "CI")

    code, out, err = type_in("run", "launch", "shop", *words)

    assert (code, out) == (0, "run-00000000000a\n")
    assert "Queued: " in err
    assert signed_in.asked[0][2] == {
        "suiteId": "shop",
        "profile": "ci.yaml",
        "keepAliveMs": 1_800_000,
        "trigger": "CI",
        "commit": "abc",
    }


def test_logs_are_filtered(signed_in: FakePartita, type_in: Type):
    signed_in.lines, signed_in.detail = 12, detail(lastLogId=12)

    assert type_in("run", "logs", RUN)[1].count("\n") == 12
    assert type_in("run", "logs", RUN, "--search", "LINE 1")[1].count("\n") == 4
    assert type_in("run", "logs", RUN, "--regex", "line 1[01]$")[1].count("\n") == 2
    assert type_in("run", "logs", RUN, "--source", "api")[1] == ""
    assert json.loads(type_in("run", "logs", RUN, "-o", "json")[1].splitlines()[0])["text"]


def test_logs_of_failed_steps_leave_out_the_healthy_ones(signed_in: FakePartita, type_in: Type):
    signed_in.lines, signed_in.detail = 12, detail(lastLogId=12)
    signed_in.sources = ["api", "check"]

    _, out, _ = type_in("run", "logs", RUN, "--failed")

    assert [line.split()[1] for line in out.splitlines()] == ["[check]"] * 6


def test_logs_of_failed_steps_say_that_there_is_none(signed_in: FakePartita, type_in: Type):
    healthy = [{**step, "status": "healthy"} for step in detail()["steps"]]
    signed_in.detail = detail(steps=healthy)

    said = type_in("run", "logs", RUN, "--failed")

    assert said == (0, "", "no step of this run has failed\n")
    assert not [path for _, path, _ in signed_in.asked if path.endswith("/logs")]


def test_the_last_question_of_a_wait_ends_with_its_time(
    signed_in: FakePartita, type_in: Type, monkeypatch
):
    allowed: list[float] = []

    def ask_once(ask: Callable[[], Any], *, until: float, on_away: object) -> Any:
        allowed.append(until - time.monotonic())
        return ask()

    monkeypatch.setattr("partita_client.command.run_launches.wait_for_answer", ask_once)

    assert type_in("run", "wait", RUN, "--timeout", "20s")[0] == ExitCode.RUN_FAILED
    assert type_in("run", "wait", RUN)[0] == ExitCode.RUN_FAILED

    assert allowed[0] <= 20 < allowed[1]


def test_a_followed_journal_outlives_an_absence(signed_in: FakePartita, type_in: Type, monkeypatch):
    def page(name: str) -> Any:
        call = {
            "id": name,
            "time": "2026-11-24T17:05:33.000Z",
            "method": "GET",
            "path": name,
            "surfaceId": "api",
            "outcome": "example",
            "status": 200,
            "durationMs": 3,
        }
        return 200, {"entries": [call]}

    turns = [page("/first"), *[problem(503, "busy")] * 5, page("/second")]

    def sleep(_seconds: float) -> None:
        if not turns:
            raise KeyboardInterrupt

    signed_in.answers["GET /api/v1/mocks/journal"] = lambda *_: turns.pop(0)
    monkeypatch.setattr(time, "sleep", sleep)

    code, out, err = type_in("mock", "journal", "shop", "--follow")

    assert (code, [line.split()[2] for line in out.splitlines()]) == (130, ["/first", "/second"])
    assert "waiting for the server" in err


@pytest.mark.parametrize("action", ["test", "sync"])
def test_a_registry_that_refuses_leaves_the_others_their_turn(
    signed_in: FakePartita, type_in: Type, action: str
):
    path = "/api/v1/platform-settings"
    known = {"registries": [{"registryId": "busy"}, {"registryId": "zot"}]}
    signed_in.answers[f"GET {path}"] = lambda *_: (200, known)
    signed_in.answers[f"POST {path}/registries/busy/{action}"] = lambda *_: problem(
        409, "sync_in_progress", "it is being read"
    )

    code, out, _ = type_in("settings", "registries", action, "-o", "json")

    assert code == ExitCode.UNAVAILABLE
    assert [each["registryId"] for each in json.loads(out)["registries"]] == ["busy", "zot"]
    assert "sync_in_progress" in out
    assert type_in("settings", "registries", action, "busy")[0] == ExitCode.CONFLICT


def test_a_header_is_given_once(signed_in: FakePartita, type_in: Type):
    headers = ("-H", "X-A: 1", "-H", "x-a: 2")

    code, _, err = type_in("mock", "explain", "shop", "api", "GET", "/goods", *headers)

    assert (code, signed_in.asked) == (2, [])
    assert "-H X-A is there twice" in err


def test_logs_of_a_run_that_goes_on_end_with_what_there_is(signed_in: FakePartita, type_in: Type):
    signed_in.is_over = False

    code, out, _ = type_in("run", "logs", RUN)

    assert (code, out.count("\n")) == (0, 3)


def test_text_of_a_server_cannot_drive_the_terminal(signed_in: FakePartita, type_in: Type):
    turned = "pass\u202egnp\u2066.\u2028"
    signed_in.runs = [summary(sentence=f"\x1b]0;owned\x07\x1b[2J{turned}", suiteId="a\rb")]

    out = type_in("run", "list", "-o", "wide")[1]

    assert "pass?gnp?.?" in out
    assert not set("\x1b\r\u202e\u2066\u2028") & set(out)


ESCAPE = "\x1b]0;owned\x07\x1b[2J\rnext: rm -rf"


def test_a_refusal_of_a_server_cannot_drive_the_terminal(signed_in: FakePartita, type_in: Type):
    text = f"no\nnext: rm -rf {ESCAPE}"
    entry = {"file": ESCAPE, "line": 1, "detail": f"bad {ESCAPE}"}
    document = {"code": f"x{ESCAPE}", "detail": text, "errors": [entry]}
    signed_in.answers["GET /api/v1/executions"] = lambda *_: (400, document)

    err = type_in("run", "list")[2]

    assert "\x1b" not in err
    assert "\r" not in err
    assert [line for line in err.splitlines() if not line.startswith(("error ", "  "))] == []


def test_steps_and_lines_of_a_server_cannot_drive_the_terminal(
    signed_in: FakePartita, type_in: Type
):
    run = detail(id=f"{RUN}{ESCAPE}", status=f"Booting{ESCAPE}", duration=ESCAPE)
    run["steps"][0]["id"] = run["steps"][1]["id"] = f"step{ESCAPE}"
    run["steps"][1]["status"] = "skipped"
    run["verdict"]["next"] = f"partita run list{ESCAPE}"
    line = {"source": ESCAPE, "timestamp": ESCAPE, "level": "info", "kind": "output", "text": "a"}
    signed_in.detail, signed_in.line = run, line

    shown = type_in("run", "show", RUN, "--all")[1] + type_in("run", "show", RUN)[1]
    shown += type_in("run", "logs", RUN)[1]

    assert "] a" in shown
    assert "\x1b" not in shown
    assert "\r" not in shown


@pytest.mark.parametrize(
    ("path", "safe"),
    [
        ("../../etc/passwd", "check/1/etc/passwd"),
        ("/abs", "check/1/abs"),
        ("a\\..\\b", "check/1/a/b"),
    ],
)
def test_a_download_stays_in_its_folder(
    signed_in: FakePartita, type_in: Type, tmp_path: Path, path: str, safe: str
):
    artifact = {"id": "x", "stepId": "check", "attempt": 1, "path": path, "size": 2, "format": "f"}
    signed_in.detail = detail(artifacts=[artifact])
    signed_in.answers[f"GET /api/v1/executions/{RUN}/artifacts/x"] = lambda *_: (200, b"ok")

    code, out, _ = type_in("run", "download", RUN, "--to", str(tmp_path / "to"))

    assert (code, out) == (0, f"{tmp_path / 'to' / safe}\n")
    assert (tmp_path / "to" / safe).read_bytes() == b"ok"


def test_a_junit_report_never_replaces_a_file(
    signed_in: FakePartita, type_in: Type, tmp_path: Path
):
    signed_in.answers[f"GET /api/v1/executions/{RUN}/junit"] = lambda *_: (200, b"<testsuites/>")
    file = tmp_path / "new" / "junit.xml"
    assert type_in("run", "download", RUN, "--junit", str(file))[:2] == (0, f"{file}\n")
    assert file.read_bytes() == b"<testsuites/>"
    file.write_text("mine")

    code, _, err = type_in("run", "download", RUN, "--junit", str(file))

    assert (code, f"{file} is there already" in err) == (ExitCode.USAGE, True)
    assert file.read_text() == "mine"
    assert [each.name for each in file.parent.iterdir()] == ["junit.xml"]
    code, _, err = type_in("run", "download", RUN, "--junit", str(file / "below"))
    assert (code, "cannot be written: Not a directory" in err) == (ExitCode.USAGE, True)


@pytest.mark.parametrize(
    ("code", "status", "ends"),
    [
        ("token_expired", 401, 4),
        ("role_required", 403, 4),
        ("execution_not_found", 404, 3),
        ("execution_finished", 409, 5),
        ("backend_unavailable", 503, 6),
        ("backend_unknown", 400, 3),
        ("validation_failed", 400, 1),
        ("internal_error", 500, 1),
        ("not_available", 501, 6),
    ],
)
def test_a_refusal_ends_with_the_code_of_the_table(
    signed_in: FakePartita, type_in: Type, monkeypatch, code: str, status: int, ends: int
):
    monkeypatch.setattr("partita_client.transport.pause_s", lambda _failures: 0.0)
    signed_in.answers["GET /api/v1/executions"] = lambda *_: problem(status, code, "not today")

    ended_with, out, err = type_in("run", "list")

    assert (ended_with, out) == (ends, "")
    assert err.startswith(f"error {code}: not today")


def test_login_keeps_the_token_of_stdin(fake: FakePartita, type_in: Type, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{TOKEN}\n"))

    code, _, err = type_in("login", fake.url, "--token-stdin", "--name", "team")

    assert code == 0
    assert "signed in to" in err
    assert TOKEN not in err
    assert read_contexts().current == "team"
    assert type_in("run", "list", "-o", "name")[1] == f"{RUN}\n"
    assert "ada@example.org" in type_in("context", "list")[1]


def test_login_refuses_a_wrong_token_and_keeps_nothing(fake, type_in: Type, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("pat_wrong"))

    code, _, err = type_in("login", fake.url, "--token-stdin")

    assert code == ExitCode.FORBIDDEN
    assert "token_revoked" in err
    assert read_contexts().contexts == {}


CODES = {
    "deviceCode": "device", "userCode": "ABCD-EFGH", "verificationUri": "https://x/device",
    "expiresIn": 600, "interval": 0,
}  # fmt: skip


def device_server(fake: FakePartita, *codes: str) -> None:
    """Let the server ask for patience, or refuse, in this order; then there is a token."""
    left = list(codes)

    def token(*_: Any) -> Any:
        return problem(400, left.pop(0)) if left else (200, {"token": TOKEN, "tokenId": "t-1"})

    fake.answers["POST /api/v1/auth/device"] = lambda *_: (200, CODES)
    fake.answers["POST /api/v1/auth/device/token"] = token


@pytest.fixture(autouse=True)
def _no_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of intervals sets this bound itself."""
    monkeypatch.setattr("partita_client.command.device_sign_in._SHORTEST_INTERVAL_S", 0.0)


def test_login_by_a_code_waits_for_the_person(fake: FakePartita, type_in: Type, monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr("partita_client.command.device_sign_in.time.sleep", waited.append)
    device_server(fake, "authorization_pending", "slow_down", "authorization_pending")

    code, _, err = type_in("login", fake.url, "--device")

    assert code == 0, err
    assert "ABCD-EFGH" in err
    assert waited == [0, 0, 5, 5]
    assert read_contexts().contexts["localhost"].token == TOKEN


def test_login_by_a_code_goes_on_while_the_server_is_away(
    fake: FakePartita, type_in: Type, monkeypatch
):
    waited: list[float] = []
    monkeypatch.setattr("partita_client.command.device_sign_in._SHORTEST_INTERVAL_S", 1.0)
    monkeypatch.setattr("partita_client.command.device_sign_in.time.sleep", waited.append)
    device_server(fake)
    answer, left = fake.answers["POST /api/v1/auth/device/token"], [0, 1, 2, 3]

    def token(*given: Any) -> Any:
        if not left:
            return answer(*given)
        if (number := left.pop(0)) == 0:
            raise ConnectionResetError  # the connection ends without an answer
        return problem(503, "datastore_unavailable") if number < 3 else (502, b"<html>")

    fake.answers["POST /api/v1/auth/device/token"] = token

    code, _, err = type_in("login", fake.url, "--device")

    assert code == 0, err
    assert waited == [1, 6, 11, 16, 21]


def test_login_by_a_code_ends_where_no_waiting_helps(fake: FakePartita, type_in: Type, monkeypatch):
    monkeypatch.setattr("partita_client.command.device_sign_in.time.sleep", lambda _seconds: None)
    device_server(fake)
    fake.answers["POST /api/v1/auth/device/token"] = lambda *_: (403, b"<html>no entry")

    code, _, err = type_in("login", fake.url, "--device")

    assert (code, fake.count("POST /api/v1/auth/device/token")) == (6, 1)
    assert "answered 403 without a problem document" in err


@pytest.mark.parametrize(("given", "first"), [(0, 1), (-5, 1), (7, 7), (1e9, 60), ("x", 1)])
def test_an_interval_of_the_server_is_bounded(
    fake: FakePartita, type_in: Type, monkeypatch, given: Any, first: float
):
    waited: list[float] = []
    monkeypatch.setattr("partita_client.command.device_sign_in._SHORTEST_INTERVAL_S", 1.0)
    monkeypatch.setattr("partita_client.command.device_sign_in.time.sleep", waited.append)
    device_server(fake)
    fake.answers["POST /api/v1/auth/device"] = lambda *_: (200, {**CODES, "interval": given})

    assert type_in("login", fake.url, "--device")[0] == 0
    assert waited == [first]


def test_a_login_never_takes_the_context_of_another_server(
    fake: FakePartita, type_in: Type, monkeypatch
):
    with serve_fake() as second, serve_fake() as third:
        for each in (fake, second, third):
            monkeypatch.setattr("sys.stdin", io.StringIO(TOKEN))
            assert type_in("login", each.url, "--token-stdin")[0] == 0

        ports = [urlsplit(each.url).port for each in (second, third)]
        found = {name: each.url for name, each in read_contexts().contexts.items()}
        assert found == {
            "localhost": fake.url,
            f"localhost-{ports[0]}": second.url,
            f"localhost-{ports[1]}": third.url,
        }
        monkeypatch.setattr("sys.stdin", io.StringIO(TOKEN))
        code, _, err = type_in("login", second.url, "--token-stdin", "--name", "localhost")
        assert (code, f"the context localhost is of {fake.url}" in err) == (2, True)


def test_a_login_again_revokes_the_token_of_the_former_one(fake: FakePartita, type_in: Type):
    device_server(fake)
    save_context(SavedContext(name="localhost", url=fake.url, token="pat_old", token_id="t-1"))

    assert type_in("login", fake.url, "--device")[0] == 0
    assert fake.count("DELETE /api/v1/auth/tokens/t-1") == 1
    assert fake.headers[-1]["authorization"] == "Bearer pat_old"
    assert read_contexts().contexts["localhost"].token == TOKEN


def test_a_login_with_the_same_token_again_does_not_revoke_it(
    fake: FakePartita, type_in: Type, monkeypatch
):
    save_context(SavedContext(name="localhost", url=fake.url, token=TOKEN, token_id="t-1"))
    monkeypatch.setattr("sys.stdin", io.StringIO(TOKEN))

    assert type_in("login", fake.url, "--token-stdin")[0] == 0
    assert fake.count("DELETE /api/v1/auth/tokens/t-1") == 0
    assert read_contexts().contexts["localhost"].token_id == "t-1"


@pytest.mark.parametrize(
    ("answer", "said", "ends"),
    [
        ("access_denied", "was denied on the page", 1),
        ("expired_token", "the code has expired", 13),
    ],
)
def test_login_by_a_code_ends_with_the_answer(fake, type_in: Type, answer, said, ends):
    device_server(fake, answer)

    code, _, err = type_in("login", fake.url, "--device")

    assert (code, said in err) == (ends, True)
    assert read_contexts().contexts == {}


def test_login_by_a_code_at_a_server_without_it_names_the_other_way(fake, type_in: Type):
    code, _, err = type_in("login", fake.url, "--device")

    assert code == ExitCode.NOT_FOUND
    assert "--token-stdin" in err


def test_logout_forgets_the_context(fake: FakePartita, type_in: Type, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(TOKEN))
    type_in("login", fake.url, "--token-stdin")

    code, _, err = type_in("logout")

    assert code == 0
    assert "revoke the API token" in err
    assert fake.count("POST /api/v1/auth/sign-out") == 1
    assert read_contexts().contexts == {}


def test_logout_revokes_the_token_that_the_login_made(fake: FakePartita, type_in: Type):
    device_server(fake)
    fake.answers["DELETE /api/v1/auth/tokens/t-1"] = lambda *_: (204, b"")
    type_in("login", fake.url, "--device")

    code, _, err = type_in("logout")

    assert code == 0
    assert "revoke" not in err
    assert fake.count("DELETE /api/v1/auth/tokens/t-1") == 1


@pytest.mark.parametrize(
    ("status", "code", "ends"),
    [(401, "token_revoked", 0), (403, "not_allowed", 6), (404, "not_found", 6), (500, "oh", 6)],
)
def test_logout_says_whether_the_token_is_still_valid(
    fake: FakePartita, type_in: Type, status: int, code: str, ends: int
):
    device_server(fake)
    fake.answers["DELETE /api/v1/auth/tokens/t-1"] = lambda *_: problem(status, code, "not now")
    type_in("login", fake.url, "--device")

    ended_with, _, err = type_in("logout")

    assert ended_with == ends
    assert ("signed out" in err) is (ends == 0)
    assert ("still valid: not now\nnext: revoke" in err) is (ends == 6)
    assert f"on the page Account of {fake.url}" in err or ends == 0
    assert read_contexts().contexts == {}


def test_doctor_names_what_is_wrong_and_what_to_do(signed_in: FakePartita, type_in: Type):
    signed_in.answers["GET /healthz"] = lambda *_: (
        200,
        {"status": "ok", "version": "9.9.9", "time": "2020-01-01T00:00:00.000Z"},
    )

    code, out, err = type_in("doctor")

    assert code == 0
    assert f"client {VERSION}, server 9.9.9" in out
    assert "ahead of the server's" in out
    assert "set the clock" in err


def test_doctor_goes_on_at_a_server_that_tells_no_time(signed_in: FakePartita, type_in: Type):
    signed_in.answers["GET /healthz"] = lambda *_: (200, {"status": "ok"})

    code, out, _ = type_in("doctor")

    assert (code, "does not tell its time" in out, "token" in out) == (0, True, True)


ROUTES = ["auth/me", "executions", f"executions/{RUN}", "suites/shop", "profiles/suites/shop"]


@pytest.mark.parametrize("answer", [[1], {}, "text", None, 7, {"executions": 3, "user": []}])
def test_an_answer_of_another_shape_is_named_as_such(
    signed_in: FakePartita, type_in: Type, monkeypatch, answer: Any
):
    signed_in.answers |= {f"GET /api/v1/{route}": lambda *_: (200, answer) for route in ROUTES}
    monkeypatch.setattr("sys.stdin", io.StringIO(TOKEN))

    for words in (
        ("run", "list"), ("run", "show", RUN), ("run", "why", RUN), ("whoami",), ("doctor",),
        ("suite", "show", "shop"), ("profile", "list", "shop"), ("run", "logs", RUN),
        ("login", signed_in.url, "--token-stdin"),
    ):  # fmt: skip
        code, _, err = type_in(*words)
        assert code == ExitCode.UNAVAILABLE, words
        assert f"{signed_in.url} answered in another shape" in err, words
        assert "next: compare both: partita version" in err


def test_a_mistake_of_the_client_itself_is_not_said_of_a_server(monkeypatch):
    def fail() -> None:
        raise KeyError("x")

    monkeypatch.setattr("partita_client.command.sign_in.read_contexts", fail)
    with pytest.raises(KeyError):
        run_words(["context", "list"])


def test_statuses_of_a_newer_server_are_shown(signed_in: FakePartita, type_in: Type):
    signed_in.detail["steps"][0]["status"] = "snoozing"

    code, out, _ = type_in("run", "show", RUN, "--all")

    assert (code, "? api" in out, "snoozing" in out) == (0, True, True)


def test_doctor_without_a_server_says_which_there_could_be(type_in: Type):
    code, out, err = type_in("doctor")

    assert code == ExitCode.UNAVAILABLE
    assert "no server is known" in out
    assert "partita up" in err


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["admin", "suite", "list"], ["suite", "list"]),
        (["up"], ["up"]),
        (["suite", "lint", "shop"], ["suite", "lint", "shop"]),
        (["suite", "list"], ["suite", "list"]),
        (["mock", "serve"], ["mock", "serve"]),
        (["help", "--all"], ["help", "--all"]),
        (
            ["mock", "import", "x.har", "--suite", "shop"],
            ["mock", "import", "x.har", "--suite", "shop"],
        ),
        (["admin", "run", "list"], ["run", "list"]),
        (["admin", "settings", "apply", "now.yaml"], ["settings", "apply", "now.yaml"]),
        (["settings", "show"], ["settings", "show"]),
    ],
)
def test_what_works_beside_the_store_is_left_to_it(words: list[str], left: list[str]):
    found = run_words(words)

    assert isinstance(found, StoreCommand)
    assert list(found.words) == left


@pytest.mark.parametrize(
    "words",
    [("profile", "set", "shop", "x"), ("environment", "reap-all")],
    ids=" ".join,
)
def test_what_http_cannot_do_is_not_done_to_another_store(
    signed_in: FakePartita, type_in: Type, words: tuple[str, ...]
):
    code, _, err = type_in(*words)

    assert code == ExitCode.USAGE
    assert f"use the pages of {signed_in.url}" in err


@pytest.mark.parametrize("noun", ["suite", "profile", "environment", "settings", "mock"])
def test_the_verbs_of_both_halves_are_known(noun: str):
    """A verb that only the store has must be named, or the client refuses it as a mistake."""
    homes = {"suite": "suites", "profile": "console", "settings": "console", "mock": "mocks"}
    command = load_command_class(f"apps.{homes.get(noun, 'environments')}", noun)
    parser = command.create_parser("partita", noun)
    found = next(each.choices for each in parser._actions if isinstance(each.choices, dict))

    client = find_noun(noun)

    assert client is not None
    assert set(found) <= set(client.names)


def test_doctor_names_a_part_of_the_server_that_is_not_ready(signed_in: FakePartita, type_in: Type):
    part = {"name": "cache", "status": "not_ready", "detail": "Redis does not answer"}
    signed_in.answers["GET /api/v1/system/readyz"] = lambda *_: (503, {"components": [part]})

    code, out, _ = type_in("doctor")

    assert code == 1
    assert "Redis does not answer" in out
