"""The removal of environments in two phases (reference: control-plane 17)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections

from apps.accounts.api import Forbidden, Role
from apps.environments import api
from apps.environments.domain.reaps import (
    CANCEL_WITHIN,
    TAKEN_WITHIN,
    ReapInProgress,
    RuntimeNotReached,
    SandboxNotFound,
)
from apps.environments.models import Reap, ReapPart
from apps.environments.services import inventory_looks as looks
from apps.environments.services import reaps, snapshots
from apps.streams.api import nudge
from kernel import clock
from tests.apps.environments.conftest import RunnerOfLoops, let_time_pass, principal_of
from tests.apps.executions.runs import Worker, booted_run, node
from tests.apps.executions_rest.conftest import Caller, make_run
from tests.support.processes import until
from tests.support.resources import EngineInMemory, resource

Start = Callable[..., RunnerOfLoops]
RUN = "run-000000000001"


def fill(engine: EngineInMemory, run_id: str = RUN, prefix: str = "") -> None:
    engine.put(
        resource(name=f"{prefix}store", run_id=run_id),
        resource("network", f"{prefix}net", run_id=run_id),
        resource("volume", f"{prefix}ws", run_id=run_id),
        resource("volume", f"{prefix}artifacts", run_id=run_id, label={"step": "store"}),
    )


def put_strangers(engine: EngineInMemory) -> None:
    engine.put(
        resource(name="foreign", label={"installation": "another"}),
        resource(name="unmanaged", label={"managed": "no"}),
    )


def test_a_reap_removes_what_the_run_left_and_nothing_else(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    fill(engine)
    put_strangers(engine)
    engine.put(resource(name="other", run_id="run-000000000002"))
    start_runner(engine)

    result = api.reap(principal_of(admin), RUN)

    assert result == {
        "scope": "sandbox",
        "target": RUN,
        "removedContainers": 1,
        "removedNetworks": 1,
        "removedVolumes": 2,
        "warnings": [],
        "dryRun": False,
    }
    assert engine.names() == {"foreign", "unmanaged", "other"}
    assert [each.kind for each in engine.removed] == ["container", "network", "volume", "volume"]


def test_a_dry_run_counts_and_removes_nothing(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    fill(engine)
    start_runner(engine)

    one = api.reap(principal_of(admin), RUN, dry_run=True)
    everything = api.reap_all(principal_of(admin), dry_run=True)

    assert (one["removedContainers"], one["removedVolumes"], one["dryRun"]) == (1, 2, True)
    assert (everything["scope"], everything["target"]) == ("global", "all-managed-sandboxes")
    assert len(engine.names()) == 4
    assert not Reap.objects.exists()


def test_a_live_run_is_canceled_first(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    run = booted_run(node("one"))
    worker = Worker(agent_id="runner:a")
    worker.claim()
    fill(engine, run.id)
    start_runner(engine)
    me = principal_of(admin)

    with ThreadPoolExecutor(1) as pool:
        reaping = pool.submit(_closing, lambda: api.reap(me, run.id))
        until(lambda: run.status == "Canceling", within_s=10)
        assert len(engine.names()) == 4  # nothing goes while its steps end
        Worker.end(_again(worker), "one", "canceled")
        result = reaping.result(30)

    assert run.status == "Canceled"
    assert run.row.canceled_by == me.label
    assert (result["removedContainers"], result["warnings"]) == (1, [])
    assert engine.names() == set()


def _again(worker: Worker) -> Worker:
    """The worker as the runner of loops registered it: with another incarnation."""
    from apps.agents.api import get_agent
    from apps.executions.models import Step

    worker.incarnation = get_agent(worker.agent_id).incarnation
    Step.objects.filter(agent_id=worker.agent_id).update(incarnation=worker.incarnation)
    return worker


def _closing(work: Callable[[], Any]) -> Any:
    try:
        return work()
    finally:
        connections.close_all()


def test_a_run_that_does_not_end_is_removed_after_its_time_with_a_warning(
    engine: EngineInMemory,
    start_runner: Start,
    admin: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reaps, "CANCEL_WITHIN", CANCEL_WITHIN / 60)
    run = booted_run(node("one"))
    Worker(agent_id="runner:a").claim()
    fill(engine, run.id)
    start_runner(engine)

    result = api.reap(principal_of(admin), run.id)

    assert run.status == "Canceling"
    assert result["removedContainers"] == 1
    assert "did not end within 30 s" in result["warnings"][0]


def test_what_a_teardown_removed_meanwhile_counts_as_gone(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    fill(engine)
    engine.before_removal = lambda _resource: engine.resources.pop(("volume", "ws"), None)
    start_runner(engine)

    result = api.reap(principal_of(admin), RUN)

    assert (result["removedContainers"], result["removedVolumes"]) == (1, 2)


def test_what_has_changed_since_the_mark_stays(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    """A successor under the same name, or other labels, is not what was marked."""
    engine.put(
        resource(name="a", run_id=""),
        resource(name="b", run_id="", label={"owner": "Ada"}),
    )
    start_runner(engine)
    api.snapshot(principal_of(admin))
    found = snapshots.look_again().environments
    pk = reaps.begin_reap("me", "all-managed-sandboxes", found, only_zombies=False)
    engine.put(
        resource(name="a", run_id="", minutes=1),
        resource(name="b", run_id="", label={"owner": "Eve"}),
    )
    reaps._end_marking(pk, [each for one in found for each in one.resources], late=False)

    result = reaps.await_result(pk)

    assert engine.names() == {"a", "b"}
    assert result["removedContainers"] == 0
    assert len(result["warnings"]) == 2


def test_what_appears_of_the_run_meanwhile_goes_in_a_second_round_and_what_is_others_stays(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    fill(engine)

    def create(removed: Any) -> None:
        if removed.name == "store":
            engine.put(
                resource(name="late", run_id=RUN, minutes=9),
                resource(name="new-run", run_id="run-000000000009", minutes=9),
                resource(name="new-orphan", run_id="", minutes=9),
                resource(name="new-foreign", label={"installation": "another"}, minutes=9),
            )

    engine.before_removal = create
    start_runner(engine)

    result = api.reap_all(principal_of(admin))

    assert engine.names() == {"new-run", "new-orphan", "new-foreign"}
    assert result["removedContainers"] == 2


def test_what_cannot_be_removed_is_a_warning_and_a_second_reap_finishes_the_rest(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    fill(engine)
    engine.stuck = {"net"}
    start_runner(engine)

    first = api.reap(principal_of(admin), RUN)
    engine.stuck = set()
    second = api.reap(principal_of(admin), RUN)

    assert (first["removedNetworks"], first["warnings"]) == (
        0,
        ["network net could not be removed"],
    )
    assert (second["removedContainers"], second["removedNetworks"]) == (0, 1)
    assert engine.names() == set()


def test_a_zombie_sweep_takes_zombies_only_and_no_world_that_is_kept(
    engine: EngineInMemory, start_runner: Start, admin: Caller, ada: Caller
) -> None:
    ended: dict[str, Any] = {
        "status": "Failed",
        "finished_at": clock.now() - 10 * looks.WATCHED_FOR,
    }
    kept = make_run(
        ada.workspace_id, **ended, keep_alive_until=clock.now() + 100 * looks.WATCHED_FOR
    )
    dead = make_run(ada.workspace_id, **ended)
    live = make_run(ada.workspace_id, status="Booting")
    for row, prefix in ((kept, "kept-"), (dead, "dead-"), (live, "live-")):
        fill(engine, row.run_id, prefix)
    start_runner(engine)
    snapshots.look_again()
    let_time_pass(31)

    result = api.reap_all(principal_of(admin), only_zombies=True)

    assert result["removedContainers"] == 1
    assert {name.split("-")[0] for name in engine.names()} == {"kept", "live"}


def test_a_zombie_that_is_kept_between_mark_and_sweep_stays(
    engine: EngineInMemory, start_runner: Start, ada: Caller
) -> None:
    ended: dict[str, Any] = {
        "status": "Failed",
        "finished_at": clock.now() - 10 * looks.WATCHED_FOR,
    }
    dead = make_run(ada.workspace_id, **ended)
    fill(engine, dead.run_id)
    runner = start_runner(engine)
    snapshots.look_again()
    let_time_pass(31)
    found = snapshots.look_again().environments
    runner.stop()
    assert found[0].is_zombie
    pk = reaps.begin_reap("me", "all-managed-sandboxes", found, only_zombies=True)
    assert reaps.mark(pk)
    dead.keep_alive_until = clock.now() + 100 * looks.WATCHED_FOR
    dead.save()

    start_runner(engine, "runner:a")
    result = reaps.await_result(pk)

    assert len(engine.names()) == 4
    assert result["warnings"] == [
        f"{dead.run_id} is no longer a zombie: nothing more of it is removed"
    ]


def test_old_zombies_are_removed_by_themselves_where_the_setting_says_so(
    engine: EngineInMemory, start_runner: Start, settings: Any, ada: Caller
) -> None:
    ended: dict[str, Any] = {
        "status": "Failed",
        "finished_at": clock.now() - 10 * looks.WATCHED_FOR,
    }
    fill(engine, make_run(ada.workspace_id, **ended).run_id)
    start_runner(engine)
    snapshots.look_again()
    let_time_pass(601)
    snapshots.look_again()
    assert len(engine.names()) == 4

    settings.ENVIRONMENT_AUTO_REAP = True
    let_time_pass(61)
    until(lambda: not engine.names(), within_s=15)

    until(lambda: Reap.objects.get().state == "done", within_s=15)
    assert Reap.objects.get().requested_by == "ENVIRONMENT_AUTO_REAP"


def test_two_reaps_of_the_same_things_are_refused(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    fill(engine)
    start_runner(engine)
    found = snapshots.look_again().environments
    me = principal_of(admin)
    reaps.begin_reap("me", RUN, found, only_zombies=False)

    with pytest.raises(ReapInProgress):
        api.reap(me, RUN)
    with pytest.raises(ReapInProgress):
        api.reap_all(me)


def test_without_a_runner_that_takes_it_a_reap_is_withdrawn(
    engine: EngineInMemory,
    start_runner: Start,
    admin: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reaps, "TAKEN_WITHIN", TAKEN_WITHIN / 20)
    fill(engine)
    runner = start_runner(engine)
    snapshots.look_again()
    runner.stop()

    with pytest.raises(RuntimeNotReached, match="no runner took"):
        api.reap(principal_of(admin), RUN)

    assert len(engine.names()) == 4
    assert {row.state for row in Reap.objects.all()} == {"done"}


def test_without_any_list_a_reap_finds_no_runtime(admin: Caller) -> None:
    with pytest.raises(RuntimeNotReached):
        api.reap(principal_of(admin), RUN)
    with pytest.raises(RuntimeNotReached):
        api.reap_all(principal_of(admin))


def test_another_runner_goes_on_where_one_was_killed(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    fill(engine)
    put_strangers(engine)
    reached = threading.Event()

    def die_at_the_network(resource: Any) -> None:
        if resource.kind == "network" and not reached.is_set():
            reached.set()
            raise ConnectionError("the process was killed here")

    engine.before_removal = die_at_the_network
    runner = start_runner(engine)
    pk = reaps.begin_reap("me", RUN, snapshots.look_again().environments, only_zombies=False)
    assert reaps.mark(pk)
    nudge(api.LOOK_NUDGE)
    assert reached.wait(10)
    runner.stop()
    assert ReapPart.objects.get().state == "sweeping"

    start_runner(engine)
    time.sleep(0.5)
    assert "net" in engine.names()  # the lease of the first one holds
    let_time_pass(16)
    result = reaps.await_result(pk)

    assert engine.names() == {"foreign", "unmanaged"}
    assert (result["removedContainers"], result["removedNetworks"]) == (1, 1)
    assert result["removedVolumes"] == 2


def test_a_runner_goes_on_with_a_reap_whose_caller_died_while_it_marked(
    engine: EngineInMemory, start_runner: Start
) -> None:
    fill(engine)
    start_runner(engine)
    pk = reaps.begin_reap("me", RUN, snapshots.look_again().environments, only_zombies=False)

    let_time_pass(11)
    until(lambda: Reap.objects.get(pk=pk).state == "done", within_s=15)

    assert engine.names() == set()


def test_what_two_runners_reach_is_swept_by_one_and_what_one_reaches_by_that_one(
    engine: EngineInMemory, start_runner: Start, admin: Caller
) -> None:
    fill(engine)
    far = EngineInMemory()
    fill(far, "run-000000000002", "far-")
    start_runner(engine, "runner:a")
    start_runner(engine, "runner:b")
    start_runner(far, "runner:far")

    result = api.reap_all(principal_of(admin))

    assert (engine.names(), far.names()) == (set(), set())
    assert (result["removedContainers"], result["removedVolumes"]) == (2, 4)
    assert len(engine.removed) == 4


def test_roles_and_foreign_workspaces(
    engine: EngineInMemory, start_runner: Start, ada: Caller, bob: Caller
) -> None:
    """Invariants 16 and 17."""
    run = make_run(ada.workspace_id, status="Failed", finished_at=clock.now())
    fill(engine, run.run_id)
    start_runner(engine)

    with pytest.raises(SandboxNotFound):
        api.reap(principal_of(bob), run.run_id)
    with pytest.raises(Forbidden):
        api.reap(principal_of(ada, Role.VIEWER), run.run_id)
    with pytest.raises(Forbidden):
        api.reap_all(principal_of(ada))
    assert not api.snapshot(principal_of(ada, Role.VIEWER))["sandboxes"][0]["canReap"]
    assert len(engine.names()) == 4
    assert api.reap(principal_of(ada, Role.RUNNER), run.run_id)["removedContainers"] == 1


def test_a_snapshot_tells_how_far_a_reap_is_to_those_who_see_it(
    engine: EngineInMemory, start_runner: Start, ada: Caller, bob: Caller
) -> None:
    run = make_run(ada.workspace_id, status="Failed", finished_at=clock.now())
    fill(engine, run.run_id)
    start_runner(engine)
    api.reap(principal_of(ada), run.run_id)

    [shown] = api.snapshot(principal_of(ada))["reaps"]

    assert (shown["state"], shown["target"], shown["marked"]) == ("done", run.run_id, 4)
    assert shown["gone"] == 4
    assert shown["result"]["removedContainers"] == 1
    assert api.snapshot(principal_of(bob))["reaps"] == []
