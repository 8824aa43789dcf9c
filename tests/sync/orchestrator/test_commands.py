"""Commands of operators."""

from __future__ import annotations

import json
import shutil
from io import StringIO

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.db import OperationalError, ProgrammingError

from kernel.clock import rfc3339
from sync_stack.core.bundle.file_maps import FileEnvironment
from sync_stack.core.bundle.rules import Prune
from sync_stack.core.sink import Destination
from sync_stack.orchestrator.management.base import SyncVerb
from sync_stack.orchestrator.management.commands.sync import VERBS
from sync_stack.orchestrator.models import Drift, LedgerTarget, Task
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services.execution.rule_scope import is_orphan
from sync_stack.orchestrator.services.operator_requests import trigger_purge
from sync_stack.orchestrator.services.triggers import Heal, trigger_heal
from tests.support.sync_world import World, rule
from tests.sync.orchestrator.test_sync_client import drift_of


class Opened:
    """The world's bundle as a configuration."""

    def __init__(self, world: World) -> None:
        self.bundle = world.bundle

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def world(tmp_path, monkeypatch) -> World:
    prune = Prune(enabled=True)
    world = World(tmp_path, rules=(rule(repositories=("acme/shop",), prune=prune),))
    monkeypatch.setattr(SyncVerb, "bundle", lambda _self: Opened(world))
    monkeypatch.setattr(SyncVerb, "ports", lambda _self, _configuration: world.ports())
    return world


def place(name: str) -> Destination:
    return Destination(kind="fake", name=name, address=f"fake://memory/{name}")


def told(*arguments: str):
    out = StringIO()
    call_command("sync", *arguments, "-o", "json", stdout=out)
    return json.loads(out.getvalue())


def test_a_triggered_rule_is_synced(world):
    world.repository.commit({"app.yaml": "a: 1\n"})
    made = told("trigger", "--rule", "shop", "--env", "production")["tasks"]
    assert len(made) == 1
    assert world.finish(Task.objects.get(id=made[0]["task_id"])).message == "completed"
    assert [unit["keys"] for unit in told("status")["targets"]] == [1]
    assert [task["kind"] for task in told("history", "--rule", "shop")["tasks"]] == ["manual"]


def test_an_unknown_rule_is_named_with_the_known_ones(world):
    with pytest.raises(CommandError, match=r'known: shop; did you mean "shop"'):
        call_command("sync", "trigger", "--rule", "shopp")


def test_a_plan_shows_what_would_happen_and_writes_nothing(world):
    """Sync invariant 22."""
    world.repository.commit({"app.yaml": "a: 1\nb: 2\n"})
    plans = told("plan", "--rule", "shop")["tasks"]
    assert plans[0]["result"]["targets"][0]["outcome"] == "planned"
    assert plans[0]["result"]["written"] == 2
    assert world.values() == {}
    assert not LedgerTarget.objects.exists()


def test_an_approved_prune_happens_once_and_for_the_listed_keys_only(world):
    """Sync invariant 14."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\nc: 3\n"}))
    stopped = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert stopped.message == "prune_guard"
    approved = told("approve-prune", stopped.id)
    assert approved["keys"] == ["b", "c"]
    task = world.finish(Task.objects.get(id=approved["task_id"]))
    assert (task.state, task.approved_by, world.values()) == ("SUCCEEDED", stopped.id, {"a": "1"})
    with pytest.raises(CommandError, match="unknown or did not fail"):
        call_command("sync", "approve-prune", task.id)


def test_what_is_approved_for_one_environment_is_not_let_go_in_another(tmp_path, monkeypatch):
    """Sync invariant 14: the same key of another unit is still guarded."""
    files = ("p.yaml", "production"), ("s.yaml", "staging")
    mapped = tuple(FileEnvironment(path=path, env=env) for path, env in files)
    world = World(
        tmp_path,
        rules=(rule(file_name="", file_path_map=mapped, branch_map={}, prune=Prune(enabled=True)),),
    )
    monkeypatch.setattr(SyncVerb, "bundle", lambda _self: Opened(world))
    whole, cut = "a: 1\nb: 2\nc: 3\n", "a: 1\n"
    world.finish(world.commit_and_push({"p.yaml": whole, "s.yaml": whole}))
    stopped = world.finish(world.commit_and_push({"p.yaml": cut}))
    approved = told("approve-prune", stopped.id)
    world.repository.commit({"s.yaml": cut})
    task = world.finish(Task.objects.get(id=approved["task_id"]))
    assert task.message == "prune_guard"
    assert world.values("staging-shop") == {"a": "1", "b": "2", "c": "3"}


def test_orphans_are_listed_and_released_without_touching_the_sink(world):
    """Sync invariant 13."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert told("orphans")["orphans"] == []
    world.with_rules(repositories=("other/x",))
    assert [each["rule_id"] for each in told("orphans")["orphans"]] == ["shop"]
    assert told("orphans", "--release")["orphans"][0]["released"]
    assert told("orphans")["orphans"] == []
    assert world.values() == {"a": "1"}


def test_a_purge_deletes_what_an_orphan_owns_and_nothing_else(world):
    """Sync invariant 13."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nkept: 2\n"}))
    world.sink.put_by_hand(place("production-shop"), "foreign", {"foreign": "x"})
    world.with_rules(repositories=("other/x",), prune=Prune(enabled=True, protection=("kept",)))
    purged = told("orphans", "--purge", "--env", "production")["orphans"]
    assert [(each["done"], each["task"]["message"]) for each in purged] == [
        ("purged", "cleaned_up")
    ]
    assert world.values() == {"kept": "2", "foreign": "x"}
    world.with_rules(prune=Prune(enabled=True))
    told("orphans", "--purge")
    assert world.values() == {"foreign": "x"}
    assert not LedgerTarget.objects.exists()


def test_a_purge_that_fails_gives_everything_back_and_says_so(world):
    """Sync invariant 14."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\nc: 3\n"}))
    world.with_rules(repositories=("other/x",))
    world.sink.break_after = 1
    with pytest.raises(CommandError, match="not done: production-shop"):
        call_command("sync", "orphans", "--purge", stdout=StringIO())
    world.sink.break_after = None
    told("orphans", "--purge")
    assert (world.values(), LedgerTarget.objects.count()) == ({}, 0)


def test_no_unit_of_a_living_rule_is_purged(world):
    """Sync invariant 13."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    assert told("orphans", "--purge") == {"orphans": []}
    task = trigger_purge(world.bundle, LedgerTarget.objects.get())
    assert world.finish(task).message == "superseded"
    assert world.values() == {"a": "1"}


def test_a_purge_does_not_follow_a_datasource_to_another_place(world):
    """Sync invariant 13: the same names in another database are another team's."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.with_rules(repositories=("other/x",))
    LedgerTarget.objects.update(destination_id="0" * 64)
    with pytest.raises(CommandError, match="not done"):
        call_command("sync", "orphans", "--purge", stdout=StringIO())
    assert Task.objects.get(kind="manual").error["code"] == "destination_invalid"
    assert world.values() == {"a": "1"}


@pytest.mark.parametrize(
    "change",
    [{"destination_template": "elsewhere-{env}"}, {"branch_map": {"main": "live"}}],
    ids=["another destination", "another environment"],
)
def test_what_a_rule_wrote_before_it_changed_is_an_orphan(world, change):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.with_rules(**change)
    assert [each["destination"] for each in told("orphans")["orphans"]] == ["production-shop"]
    world.finish(world.commit_and_push({"x": "1"}))
    assert [each["destination"] for each in told("orphans")["orphans"]] == ["production-shop"]


def test_the_unit_of_a_pull_request_whose_ref_is_a_branch_is_no_orphan(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}, branch="develop"))
    world.with_rules(env_as_pr=True, destination_template="kept", branch_map={"main": "live"})
    unit = LedgerTarget.objects.get()
    unit.env, unit.destination_id = "pr-7", place("kept").id
    assert not is_orphan(world.bundle, unit, world.open_sink)


def test_blame_names_the_commit_that_changed_the_line_and_its_author(world):
    first = world.repository.commit({"app.yaml": "db:\n  host: a\n  port: 1\n"})
    world.finish(world.push(first))
    second = world.repository.commit({"app.yaml": "db:\n  host: a\n  port: 2\n"})
    task = world.finish(world.push(second))
    host, port = (told("blame", key)["keys"][0] for key in ("db.host", "db.port"))
    assert (host["changed"]["commit"], port["changed"]["commit"]) == (first, second)
    assert (host["commit"], host["applied"]["commit"], host["task_id"]) == (second, second, task.id)
    assert (port["file"], port["line"], port["live"]) == ("app.yaml", 3, "in_sync")
    assert port["changed"]["email"] == "a@example.org"


def test_blame_tells_what_somebody_else_changed_and_shows_no_value(world):
    """Sync invariant 24."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    world.sink.put_by_hand(place("production-shop"), "a", {"a": "by hand"})
    out = StringIO()
    call_command("sync", "blame", "a", "--env", "production", stdout=out)
    assert " changed " in out.getvalue()
    assert "by hand" not in out.getvalue()
    del world.sink.places[place("production-shop").id].records["b"]
    assert told("blame", "b")["keys"][0]["live"] == "missing"


def test_blame_says_what_it_knows_without_git(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.repository.bare.rename(world.folder / "away")
    shutil.rmtree(world.folder / "cache")
    found = told("blame", "a")["keys"][0]
    assert "repository_not_found" in found["problem"]
    assert (found["live"], found["file"]) == ("in_sync", "app.yaml")


def test_blame_of_a_key_that_nobody_holds_is_an_error(world):
    with pytest.raises(CommandError, match="no target holds 'nothing'"):
        call_command("sync", "blame", "nothing")


def test_a_plan_that_a_guard_stops_says_so_and_is_no_success(world):
    """Sync invariant 35."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\nc: 3\n"}))
    world.repository.commit({"app.yaml": "a: 1\n"})
    with pytest.raises(CommandError, match="prune_guard"):
        call_command("sync", "plan", "--rule", "shop", stdout=StringIO())
    assert world.values() == {"a": "1", "b": "2", "c": "3"}


def test_a_plan_that_a_guard_stops_shows_what_it_would_do_and_the_other_units_plans(
    tmp_path, monkeypatch
):
    """Sync invariant 22."""
    files = ("p.yaml", "production"), ("s.yaml", "staging")
    mapped = tuple(FileEnvironment(path=path, env=env) for path, env in files)
    only = rule(
        repositories=("acme/shop",), file_name="", file_path_map=mapped, branch_map={},
        prune=Prune(enabled=True),
    )  # fmt: skip
    world = World(tmp_path, rules=(only,))
    monkeypatch.setattr(SyncVerb, "bundle", lambda _self: Opened(world))
    monkeypatch.setattr(SyncVerb, "ports", lambda _self, _configuration: world.ports())
    world.finish(world.commit_and_push({"p.yaml": "a: 1\nb: 2\nc: 3\n", "s.yaml": "a: 1\n"}))
    world.repository.commit({"p.yaml": "a: 2\nd: 4\n", "s.yaml": "a: 2\n"})
    out = StringIO()

    with pytest.raises(CommandError, match="prune_guard"):
        call_command("sync", "plan", "--rule", "shop", "-o", "json", stdout=out)

    (task,) = json.loads(out.getvalue())["tasks"]
    stopped, other = sorted(task["result"]["targets"], key=lambda target: target["env"])
    assert (stopped["outcome"], stopped["error"]["code"]) == ("failed", "prune_guard")
    assert (stopped["written"], stopped["pruned"], stopped["unchanged"]) == (2, 2, 0)
    assert stopped["would_prune"] == ["b", "c"]
    assert (other["outcome"], other["written"]) == ("planned", 1)
    assert world.values() == {"a": "1", "b": "2", "c": "3"}


def test_a_plan_names_the_keys_that_would_go(world):
    """Sync invariant 22."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    world.repository.commit({"app.yaml": "a: 1\n"})
    target = told("plan", "--rule", "shop")["tasks"][0]["result"]["targets"][0]
    assert (target["would_prune"], target["pruned"]) == (["b"], 1)
    assert world.values() == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("command", "known"),
    [
        (("sync", "drift", "--state", "opne"), 'did you mean "open"'),
        (("sync", "history", "--state", "faild"), 'did you mean "FAILED"'),
        (("sync", "history", "--state", "success"), 'did you mean "SUCCEEDED"'),
        (("sync", "history", "--kind", "hook"), "known: heal, manual"),
        (("sync", "status", "--status", "drift"), 'did you mean "drifted"'),
        (
            ("sync", "status", "--rule", "shopp"),
            r'no rule \'shopp\' \(known: shop; did you mean "shop"',
        ),
        (("sync", "history", "--rule", "nope"), r"no rule 'nope' \(known: shop\)"),
        (("sync", "drift", "--rule", "nope"), "known: shop"),
        (("sync", "blame", "a", "--rule", "nope"), "known: shop"),
        (("sync", "orphans", "--rule", "nope"), "known: shop"),
    ],
)
def test_a_filter_that_nothing_can_match_is_refused(world, command, known):
    with pytest.raises(CommandError, match=known) as refused:
        call_command(*command)
    assert refused.value.returncode == (3 if "--rule" in command else 2)


def test_the_history_of_a_commit_is_found_by_its_beginning(world):
    first = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.finish(world.commit_and_push({"app.yaml": "a: 2\n"}))
    commit = first.request["events"][0]["commit"]

    found = told("history", "--commit", commit[:8].upper())["tasks"]

    assert [task["task_id"] for task in found] == [first.id]
    with pytest.raises(CommandError, match="at least 7 hex digits") as refused:
        call_command("sync", "history", "--commit", "main")
    assert refused.value.returncode == 2


def test_a_rule_that_left_the_bundle_is_still_a_filter(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.with_rules(name="renamed")
    assert [unit["rule_id"] for unit in told("status", "--rule", "shop")["targets"]] == ["shop"]
    assert told("status", "--rule", "renamed")["targets"] == []


def test_blame_after_a_heal_names_the_task_and_the_delivery_that_brought_the_key(world):
    world.with_rules(self_heal=True)
    brought = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    unit = LedgerTarget.objects.get()
    world.sink.put_by_hand(place("production-shop"), "a", {"a": "9"})
    heal = Heal(
        datasource=unit.datasource,
        rule=unit.rule_id,
        repo=unit.repo,
        env=unit.env,
        destination_id=unit.destination_id,
        idempotency_key="heal",
        commit=unit.commit,
        drift_id="a-drift",
    )
    healed = world.finish(trigger_heal(heal, world.bundle, world.published.extend).task)

    found = told("blame", "a")["keys"][0]

    assert world.values() == {"a": "1"}
    assert (found["task_id"], found["healed_by"]) == (brought.id, healed.id)
    assert found.get("delivery_id", "") == brought.delivery_id


def test_a_task_of_several_refs_shows_all_of_them(world):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    task = Task.objects.get()
    (event,) = task.request["events"]
    other = event | {"ref": "refs/heads/develop", "branch": "develop"}
    Task.objects.update(request=task.request | {"events": [event, other]})

    (shown,) = told("history")["tasks"]

    assert [each["ref"] for each in shown["events"]] == ["refs/heads/main", "refs/heads/develop"]
    assert shown["event"] == event


@pytest.mark.parametrize(
    ("error", "sentence"),
    [(ProgrammingError("no such table"), "migrate"), (OperationalError("gone"), "DB_DRIVER")],
)
def test_a_store_that_cannot_be_used_is_a_sentence_and_exit_code_6(monkeypatch, error, sentence):
    def fails(*_args, **_kwargs):
        raise error

    monkeypatch.setattr(ledgers, "list_targets", fails)
    with pytest.raises(CommandError, match=sentence) as caught:
        call_command("sync", "status")
    assert caught.value.returncode == 6


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_help_has_an_example_and_every_verb_speaks_json(verb, capsys):
    with pytest.raises(SystemExit):
        call_command("sync", verb.name, "--help")

    printed = capsys.readouterr().out
    assert f"partita sync {verb.name}" in printed.partition("examples:")[2]
    assert "--output" in printed
    assert "exit codes: 0" in printed


def test_without_a_verb_the_command_lists_them():
    with pytest.raises(CommandError, match="name a verb: check, plan, trigger, status") as refused:
        call_command("sync")
    assert refused.value.returncode == 2


def test_documents_come_as_yaml_too(world, capsys):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))

    call_command("sync", "status", "-o", "yaml")

    [target] = yaml.safe_load(capsys.readouterr().out)["targets"]
    assert target == told("status")["targets"][0]


def test_drift_of_nobody_is_an_empty_list(world):
    assert told("drift") == {"drift": []}


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("verb", ["status", "show"])
def test_what_others_named_cannot_drive_a_terminal(world, verb):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    task = world.finish(world.commit_and_push({"app.yaml": "a: [\n"}))
    error = task.error | {"detail": "\x1b]0;owned\x07\r\x9b2Jgone", "file": "a\x1b[2J.yaml"}
    result = json.loads(json.dumps(task.result))
    for target in result["targets"]:
        target["error"] = error
    Task.objects.filter(id=task.id).update(error=error, result=result)
    words = [verb, task.id] if verb == "show" else [verb]
    out = Terminal()

    call_command("sync", *words, stdout=out)

    text = out.getvalue()
    assert [letter for letter in text if not letter.isprintable() and letter != "\n"] == []
    assert "?]0;owned???2Jgone" in text
    assert len(text.splitlines()) > 3


def test_the_failure_of_a_watched_task_cannot_drive_a_terminal_either(world):
    task = world.finish(world.commit_and_push({"app.yaml": "a: [\n"}))
    error = task.error | {"detail": "\x1b]0;owned\x07"}
    Task.objects.filter(id=task.id).update(error=error)

    with pytest.raises(CommandError) as refused:
        call_command("sync", "watch", task.id)

    assert str(refused.value).startswith("parse_error: ?]0;owned?")
    assert refused.value.returncode == 1


def test_wide_tables_have_times(world):
    task = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    (target,) = LedgerTarget.objects.all()
    drift_of(target)
    drift = Drift.objects.get()
    waiting = world.commit_and_push({"app.yaml": "a: 2\n"})

    def table(*words: str) -> list[str]:
        out = StringIO()
        call_command("sync", *words, stdout=out)
        return out.getvalue().splitlines()

    status = table("status", "-o", "wide")
    assert status[0].split()[-5:] == ["SINCE", "REF", "DATASOURCE", "APPLIED", "ID"]
    assert status[1].split()[-5:] == [
        *(rfc3339(waiting.created_at), "refs/heads/main", "sink", target.applied_at, target.id)
    ]
    history = table("history", "-o", "wide")
    assert history[0].split()[-4:] == ["CREATED", "FINISHED", "ATTEMPT", "DELIVERY"]
    assert history[2].split()[-4:-1] == [
        *(rfc3339(task.created_at), rfc3339(task.finished_at), "1")
    ]
    episodes = table("drift", "-o", "wide")
    assert episodes[1].split()[-3:] == [
        *(drift.destination, rfc3339(drift.first_seen_at), rfc3339(drift.last_seen_at))
    ]
    assert len(table("status")[0]) < len(status[0])
    assert rfc3339(task.created_at) not in "\n".join(table("history"))
    with pytest.raises(CommandError):
        table("trigger", "--rule", "shop", "-o", "wide")
