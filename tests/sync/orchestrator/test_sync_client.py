"""`partita sync` over HTTP: the client against the API of an orchestrator with a store."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from django.db import connection

from partita_client.command.halves import StoreCommand
from partita_client.command.program import run_words
from partita_client.errors import NoConnection, NoServer
from partita_client.sync_server import SyncClient, choose_sync_server
from sync_stack.core.bundle.rules import Prune
from sync_stack.orchestrator.models import Drift, LedgerTarget, Task
from sync_stack.orchestrator.selectors import task_refs
from sync_stack.orchestrator.server.http_api import HttpApi
from sync_stack.orchestrator.server.metrics import OrchestratorMetrics
from sync_stack.orchestrator.server.openapi import OPENAPI
from sync_stack.rpc.http_thread import HttpThread
from tests.support.sync_world import World, rule

KEY = "key-for-tests"
Said = tuple[int, str, str]
Type = Callable[..., Said]


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("URL", "KEY", "KEY_FILE"):
        monkeypatch.delenv(f"PARTITA_SYNC_{name}", raising=False)
    for name in ("CLICOLOR_FORCE", "PARTITA_CA_FILE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, rules=(rule(prune=Prune(enabled=True)),))


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The API of the store of the test, which the environment names with its key."""
    threads = ThreadPoolExecutor(1)
    api = HttpApi(
        keys=(KEY,),
        origins=(),
        checks=dict,
        metrics=OrchestratorMetrics(version="test"),
        threads=threads,
    )
    listener = socket.create_server(("127.0.0.1", 0))
    server = HttpThread("http", api, listener)
    server.start()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("PARTITA_SYNC_URL", address)
    monkeypatch.setenv("PARTITA_SYNC_KEY", KEY)
    yield address
    server.stop(5)
    threads.submit(_close).result()


def _close() -> None:
    """The connection of the thread that calls."""
    connection.close()


@pytest.fixture
def type_in(capsys: pytest.CaptureFixture[str]) -> Type:
    """Run words as typed; return exit code, stdout and stderr."""

    def run(*words: str) -> Said:
        capsys.readouterr()
        try:
            code = run_words(["sync", *words])
        except SystemExit as ended:
            code = int(str(ended.code))
        assert not isinstance(code, StoreCommand), code
        said = capsys.readouterr()
        return int(code), said.out, said.err

    return run


def test_status_is_a_table_with_what_each_destination_holds(world, url, type_in: Type):
    task = world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    commit = task.request["events"][0]["commit"]

    code, out, err = type_in("status")

    heads, row = (line.split() for line in out.splitlines())
    assert (code, err) == (0, "1 target, 0 behind\n")
    assert heads[:7] == ["RULE", "REPOSITORY", "ENV", "DESTINATION", "COMMIT", "KEYS", "AGE"]
    assert row[:6] == ["shop", "acme/shop", "production", "production-shop", commit[:12], "2"]
    assert row[-1] == "–"


def test_what_is_behind_is_explained_with_the_next_command(world, url, type_in: Type):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\nc: 3\n"}))
    stopped = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.finish(world.commit_and_push({"app.yaml": "a: [\n"}, branch="develop"))

    _, out, err = type_in("status")

    assert "shop acme/shop production at production-shop: behind for " in out
    assert ": failed, prune_guard: " in out
    assert f"  next: if the keys may go: partita sync approve-prune {stopped.id}" in out
    assert "shop acme/shop refs/heads/develop: nothing applied for " in out
    assert "  next: fix app.yaml:" in out
    assert err == "1 target, 1 behind, 1 ref never applied\n"


def test_programs_get_documents_with_times_and_the_whole_reason(world, url, type_in: Type):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    waiting = world.commit_and_push({"app.yaml": "a: 2\n"})
    (target,) = LedgerTarget.objects.all()

    document = json.loads(type_in("status", "-o", "json")[1])

    behind = document["targets"][0]["behind"]
    assert (behind["state"], behind["task_id"]) == ("pending", waiting.id)
    assert behind["since"].endswith("Z")
    assert document["unapplied"] == []
    assert yaml.safe_load(type_in("status", "-o", "yaml")[1]) == document
    assert json.loads(type_in("status", "-o", "ndjson")[1]) == document["targets"][0]
    assert type_in("status", "-o", "name")[1] == f"{target.id}\n"
    assert type_in("status", "--jq", ".targets[].behind.state")[1] == "pending\n"
    assert target.applied_at in type_in("status", "-o", "wide")[1]


def test_a_status_that_may_leave_something_out_says_so(world, url, type_in: Type, monkeypatch):
    monkeypatch.setattr(task_refs, "MAX_LIVE", 1)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert "may be shown" not in type_in("status")[2]
    world.commit_and_push({"app.yaml": "a: 2\n"})
    world.commit_and_push({"app.yaml": "a: 3\n"})

    assert "not all that is behind may be shown" in type_in("status")[2]
    assert json.loads(type_in("status", "-o", "json")[1])["incomplete"] is True


def test_documents_are_what_the_api_is_described_to_answer(world, url, type_in: Type):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    waiting = world.commit_and_push({"app.yaml": "a: [\n"})
    world.finish(world.commit_and_push({"app.yaml": "a: [\n"}, branch="develop"))
    drift_of(LedgerTarget.objects.get())

    status = json.loads(type_in("status", "-o", "json")[1])

    check_described("Targets", {"targets": status["targets"]})
    check_described("UnappliedRefs", {"refs": status["unapplied"]})
    check_described("Tasks", json.loads(type_in("history", "-o", "json")[1]))
    check_described("Task", json.loads(type_in("show", waiting.id, "-o", "json")[1]))
    check_described("Drifts", json.loads(type_in("drift", "-o", "json")[1]))
    assert all((status["targets"][0]["behind"], status["unapplied"][0]["behind"]))


def check_described(name: str, document: Any) -> None:
    """Hold a document against a schema of the description, in which every key is named."""
    components = json.loads(json.dumps(OPENAPI["components"]))
    for schema in components["schemas"].values():
        schema["additionalProperties"] = False
    whole = {"components": components, "$ref": f"#/components/schemas/{name}"}
    validator = jsonschema_rs.Draft202012Validator(whole)
    assert [str(error) for error in validator.iter_errors(document)] == []


def test_filters_are_those_of_the_api_and_behind_is_one_of_the_client(world, url, type_in: Type):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}, branch="develop"))
    world.commit_and_push({"app.yaml": "a: 2\n"})

    def shown(*words: str) -> list[str]:
        found = json.loads(type_in("status", *words, "-o", "json")[1])
        return sorted(each["env"] for each in found["targets"])

    assert shown() == ["production", "staging"]
    assert shown("--env", "staging") == ["staging"]
    assert shown("--behind") == ["production"]
    assert shown("--status", "DRIFTED") == []


def test_history_finds_a_push_by_its_commit_and_its_state_in_any_case(world, url, type_in: Type):
    first = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.finish(world.commit_and_push({"app.yaml": "a: [\n"}))
    commit = first.request["events"][0]["commit"]

    assert type_in("history", "--commit", commit[:8], "-o", "name")[1] == f"{first.id}\n"
    code, out, _ = type_in("history", "--state", "Failed")
    assert code == 0
    assert [line.split()[2:4] for line in out.splitlines()[1:]] == [["FAILED", "parse_error"]]
    assert "has the push reached the gateway" in type_in("history", "--repo", "no/body")[2]


def test_more_than_a_page_is_read_to_its_end(world, url, type_in: Type):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    (task,) = Task.objects.all()
    for number in range(205):
        task.id, task.idempotency_key = f"{number:036d}", str(number)
        task.save(force_insert=True)

    assert len(type_in("history", "--limit", "1000", "-o", "name")[1].splitlines()) == 206
    assert len(type_in("history", "--limit", "201", "-o", "name")[1].splitlines()) == 201


def test_a_task_shows_the_keys_that_a_guard_kept(world, url, type_in: Type):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\nc: 3\n"}))
    stopped = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))

    code, out, _ = type_in("show", stopped.id)

    assert code == 0
    assert f"webhook task {stopped.id}: FAILED, prune_guard, created " in out
    assert "production-shop: would delete b, c" in out
    assert json.loads(type_in("show", stopped.id, "-o", "json")[1])["task_id"] == stopped.id


def test_a_watch_ends_as_its_task_does(world, url, type_in: Type, monkeypatch):
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    monkeypatch.setattr(
        "partita_client.command.sync.time.sleep", lambda _seconds: world.finish(task)
    )

    code, out, err = type_in("watch", task.id)

    assert (code, err) == (0, "PENDING\n")
    assert "SUCCEEDED, completed" in out
    failed = world.finish(world.commit_and_push({"app.yaml": "a: [\n"}))
    assert type_in("watch", failed.id)[0] == 1


def test_a_watch_outlives_an_absence(world, url, type_in: Type, monkeypatch):
    task, failures = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"})), [1, 2]
    read_task = SyncClient.task

    def cut_first(client: SyncClient, task_id: str) -> Any:
        if failures and failures.pop():
            raise NoConnection("it was cut")
        return read_task(client, task_id)

    monkeypatch.setattr(SyncClient, "task", cut_first)

    code, out, err = type_in("watch", task.id)

    assert (code, err) == (0, "it was cut; waiting for the orchestrator\n")
    assert "SUCCEEDED, completed" in out


def test_a_watch_that_is_over_or_left_says_how_to_come_back(world, url, type_in: Type, monkeypatch):
    task = world.commit_and_push({"app.yaml": "a: 1\n"})

    code, _, err = type_in("watch", task.id, "--timeout", "1ms")
    assert (code, f"partita sync watch {task.id}" in err) == (13, True)

    def leave(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("partita_client.command.sync.time.sleep", leave)
    assert type_in("watch", task.id)[0] == 14


def test_drift_names_the_keys(world, url, type_in: Type):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    (target,) = LedgerTarget.objects.all()
    LedgerTarget.objects.update(status="drifted")
    drift_of(target)

    code, out, _ = type_in("drift", "--state", "open", "--repo", "acme/shop")

    state, age, *rest = out.splitlines()[1].split()[4:]
    assert (code, state, rest) == (0, "open", ["1", "0", "0", "a"])
    assert age.removesuffix("s").isdigit(), "a few seconds on a busy machine"
    assert "changed outside Git: 1 of 1 targets" in type_in("status")[1]


def drift_of(target: LedgerTarget) -> None:
    """Store an open episode: somebody changed the key `a`."""
    same = ("rule_id", "platform", "datasource", "kind", "tenant", "env", "repo", "ref", "commit")
    task = Task.objects.get(id=target.last_task_id)
    Drift.objects.create(
        **{name: getattr(target, name) for name in (*same, "destination")},
        id="0198f0c2-7d1e-7c41-9a57-2f5d0c1e8b11",
        slot=target.id,
        unit_id=target.id,
        state="open",
        first_seen_at=task.created_at,
        last_seen_at=task.created_at,
        counts={"changed": 1, "added": 0, "removed": 0},
        changes=[{"key": "a", "kind": "changed", "secret": False}],
    )


@pytest.mark.parametrize("key", ["", "another"])
def test_without_the_key_nothing_is_told_but_where_it_is(
    key: str, world, url, type_in: Type, monkeypatch
):
    monkeypatch.setenv("PARTITA_SYNC_KEY", key)

    code, out, err = type_in("status")

    assert (code, out) == (4, "")
    assert "error unauthenticated" in err
    assert "PARTITA_SYNC_KEY_FILE" in err


def test_the_key_may_be_in_a_file_and_goes_to_no_other_server(
    world, url, type_in: Type, monkeypatch, tmp_path
):
    monkeypatch.delenv("PARTITA_SYNC_KEY")
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv("PARTITA_SYNC_KEY_FILE", str(tmp_path / "key"))

    assert type_in("status")[0] == 0
    assert choose_sync_server(url).key == KEY
    monkeypatch.setenv("PARTITA_SYNC_URL", "https://sync.example.com")
    assert choose_sync_server(url).key == ""
    assert type_in("status", "--server", url)[0] == 4
    assert KEY not in repr(choose_sync_server())


def test_an_open_network_is_warned_of(monkeypatch):
    monkeypatch.setenv("PARTITA_SYNC_KEY", KEY)

    assert choose_sync_server("http://10.0.0.1:8000").is_key_open
    assert not choose_sync_server("https://sync.example.com").is_key_open
    assert not choose_sync_server("localhost:8000").is_key_open


def test_a_task_that_is_unknown_is_not_found(world, url, type_in: Type):
    code, _, err = type_in("show", "0198f0c2-7d1e-7c41-9a57-2f5d0c1e8b11")

    assert code == 3
    assert "partita sync history" in err


def test_a_wrong_filter_is_answered_with_the_known_ones(world, url, type_in: Type):
    assert type_in("status", "--status", "drift")[0] == 2
    code, _, err = type_in("history", "--commit", "xyz")
    assert (code, "at least 7 hex digits" in err) == (1, True)
    assert "did you mean --rule?" in type_in("status", "--ruel", "shop")[2]


def test_an_orchestrator_that_is_away_is_unavailable(type_in: Type, monkeypatch):
    monkeypatch.setattr("partita_client.transport.pause_s", lambda _failures: 0)

    code, _, err = type_in("status", "--server", "http://127.0.0.1:1")

    assert code == 6
    assert "partita run_orchestrator" in err


@pytest.mark.parametrize("words", [["status"], ["history"], ["plan", "--rule", "shop"]])
def test_without_an_orchestrator_a_verb_is_for_the_store(words: list[str]):
    left = run_words(["sync", *words])

    assert isinstance(left, StoreCommand)
    assert left.words == ["sync", *words]


def test_the_client_alone_says_what_names_an_orchestrator(capsys):
    with pytest.raises(NoServer):
        choose_sync_server()
    assert run_words(["sync", "status"], has_store=False) == 6
    assert "PARTITA_SYNC_URL" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["plan", "trigger", "blame", "orphans", "approve-prune"])
def test_a_verb_of_the_store_is_not_run_here_while_another_place_is_meant(
    verb: str, type_in: Type, monkeypatch
):
    monkeypatch.setenv("PARTITA_SYNC_URL", "https://sync.example.com")

    code, _, err = type_in(verb, "x")

    assert code == 2
    assert f"partita admin sync {verb}" in err
    assert isinstance(run_words(["sync", verb, "--help"]), StoreCommand)
    assert isinstance(run_words(["sync", "check", "config.cue"]), StoreCommand)


def test_words_and_ids_are_completed(world, url, capsys):
    task = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))

    def completed(*words: str) -> list[str]:
        capsys.readouterr()
        run_words(["__complete", "sync", *words])
        printed: str = capsys.readouterr().out
        return printed.split()

    assert completed("s") == ["status", "show"]
    assert completed("show", "") == [task.id]
    assert completed("status", "--rule", "") == ["shop"]
    assert completed("status", "--env", "p") == ["production"]
    assert completed("history", "--state", "f") == ["failed"]
