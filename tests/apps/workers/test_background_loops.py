"""Each background loop of the control plane is ended by an error and comes back, counted."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from apps.accounts import lifespan as accounts
from apps.console.embedded import demo as demos
from apps.console.embedded import server as embedded
from apps.console.embedded import up
from apps.executions.services import artifact_sweeper, enqueue, sweep
from apps.health import services as probing
from apps.observability import metrics
from apps.oci import lifespan as oci
from apps.operations.services import audit_trail
from apps.operations.services.server_processes import Presence
from apps.platform_settings import lifespan as platform_settings
from apps.profiles import lifespan as profiles
from apps.streams.services import store_loop
from apps.streams.services.hub import Hub
from apps.streams.services.redis_nudges import RedisNudges
from apps.streams.services.stream_leases import StreamLeases
from apps.suites import lifespan as suites
from apps.workers import inventory
from apps.workers import repeats as repeat_loop
from apps.workers import runner as runners
from apps.workers import shells as shell_loop
from apps.workers.control_plane.report_batcher import ReportBatcher
from apps.workers.inventory import InventoryLoops
from apps.workers.repeats import RepeatLoop
from apps.workers.runner import Runner, RunnerThread
from apps.workers.shells import ShellLoop
from kernel import background
from kernel.agent_protocol import Job, StateReport
from kernel.background_writer import BackgroundWriter, QueueLimits
from kernel.cluster_access import ClusterAccess
from mocks.journal.entries import NotedCall
from mocks.journal.redis import RedisJournal
from mocks.model.calls import CallOutcome
from mocks.redis_link import RedisLink
from mocks.spaces import Spaces
from mocks.standalone import served_suite
from mocks.standalone.served_files import ServedFiles
from mocks.standalone.served_suite import ServedSuite
from tests.apps.workers.conftest import Stage
from tests.architecture.sources import ROOT
from tests.support.broken import Break, BrokenOnce, Unforeseen, comes_back, nothing
from tests.support.mock_planes import Planes
from worker.control_plane.held_jobs import StopPoller
from worker.domain.control_plane import ControlPlaneUnavailable
from worker.runtimes.kubernetes.client import ClusterClient
from worker.runtimes.kubernetes.pod_watch import PodWatch
from worker.service import WorkerService
from worker.supervisor.attempt import UsageSampler
from worker.supervisor.lease_keeper import LeaseKeeper
from worker.supervisor.supervisor import Supervisor
from worker.supervisor.supervisor_heartbeat import SupervisorHeartbeat

pytestmark = pytest.mark.usefixtures("quick_loops")
Piece = tuple[BrokenOnce, Callable[[], object]]  # what is broken, and how it is given work


async def for_ever(*_arguments: Any, **_options: Any) -> None:
    await asyncio.Event().wait()


async def at_once(*_arguments: Any, **_options: Any) -> None:
    return None


@asynccontextmanager
async def sweeping(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    monkeypatch.setattr(store_loop, "release_stale_connection", lambda: None)
    monkeypatch.setattr(sweep, "release_lease", lambda _: None)
    made = sweep.SweeperPart(interval_s=0.01)
    once = broken(sweep, "sweep", nothing)
    await made.start()
    yield once, lambda: None
    await made.stop()


@asynccontextmanager
async def artifact_sweep(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    monkeypatch.setattr(artifact_sweeper, "INTERVAL_S", 0.01)
    monkeypatch.setattr(store_loop, "release_stale_connection", lambda: None)
    monkeypatch.setattr(artifact_sweeper, "release_lease", lambda _: None)
    once = broken(artifact_sweeper.ArtifactSweep, "turn", nothing)
    made = artifact_sweeper.ArtifactSweeperPart()
    await made.start()
    yield once, lambda: None
    await made.stop()


@asynccontextmanager
async def publishing(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    app = SimpleNamespace(send_task=lambda *_a, **_o: None)
    monkeypatch.setattr(enqueue, "celery_application", lambda: app)
    once = broken(BackgroundWriter, "_next_batch")
    made = BackgroundWriter("enqueue", enqueue._send, QueueLimits(items=10))
    yield once, lambda: made.put(enqueue._Message("executions.dispatch", (), None))


@asynccontextmanager
async def suites_at_start(monkeypatch: pytest.MonkeyPatch, _broken: Break) -> AsyncIterator[Piece]:
    once = BrokenOnce()
    monkeypatch.setattr(suites, "library", SimpleNamespace(evaluated_suites=once.call))
    await suites.SuitesPart().start()
    yield once, lambda: None


@asynccontextmanager
async def registries(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    monkeypatch.setattr(oci, "INTERVAL_S", 0.01)
    monkeypatch.setattr(store_loop, "release_stale_connection", lambda: None)
    once = broken(oci, "see_to_due", nothing)
    made = oci.RegistriesPart()
    await made.start()
    yield once, lambda: None
    await made.stop()


@asynccontextmanager
async def auditing(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    once = broken(audit_trail, "store", nothing)
    monkeypatch.setattr(audit_trail, "forget_old", lambda: None)
    trail = audit_trail.AuditTrail()
    record: Any = SimpleNamespace()
    yield once, lambda: trail.put(record)
    trail.close()


@asynccontextmanager
async def leases(_monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    once = broken(LeaseKeeper, "expire", nothing)
    ignore: Any = SimpleNamespace()
    made = LeaseKeeper(ignore, usage=ignore, on_directive=ignore, on_expired=ignore, lease_s=0.03)
    made.start()
    yield once, lambda: None
    made.stop()


@asynccontextmanager
async def orders(monkeypatch: pytest.MonkeyPatch, _broken: Break) -> AsyncIterator[Piece]:
    monkeypatch.setattr(StopPoller, "EACH_S", 0.01)
    once = BrokenOnce(lambda: ())
    made = StopPoller(once.call, lambda _job: None, lambda: None)
    made.start()
    yield once, lambda: None
    made.stop()


@asynccontextmanager
async def store(_monkeypatch: pytest.MonkeyPatch, _broken: Break) -> AsyncIterator[Piece]:
    def answer(**reports: Any) -> Any:
        stored = tuple(None for _ in reports["states"])
        return SimpleNamespace(states=stored, chunks=(), completions=(), claimed=())

    once = BrokenOnce(answer)
    made = ReportBatcher(once.call)
    report = StateReport(job=Job(job_id="job", attempt=1), state="running")
    made.start()
    first = made.add(report)
    yield once, lambda: made.add(report)
    with pytest.raises(ControlPlaneUnavailable, match="as the test says"):
        first.result(0)
    made.stop()


@asynccontextmanager
async def runner(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    over = asyncio.Event()
    monkeypatch.setattr(Runner, "__init__", lambda _self, _runtime: None)
    monkeypatch.setattr(Runner, "stop", lambda _self: over.set())
    once = broken(Runner, "run", lambda _self: asyncio.run(_until(over)))
    made = RunnerThread("process")
    made.start()
    yield once, lambda: None
    made.stop()


async def _until(over: asyncio.Event) -> None:
    while not over.is_set():  # noqa: ASYNC110 - another loop sets it
        await asyncio.sleep(0.01)


@asynccontextmanager
async def tidying(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    monkeypatch.setattr(accounts, "_maintain", at_once)
    once = broken(accounts, "_maintain_periodically", for_ever)
    part = accounts.AccountsPart()
    await part.start()
    yield once, lambda: None
    await part.stop()


@asynccontextmanager
async def refreshing(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    monkeypatch.setattr(platform_settings, "_prepare", lambda: None)
    once = broken(platform_settings, "_refresh_periodically", for_ever)
    part = platform_settings.SettingsPart()
    await part.start()
    yield once, lambda: None
    await part.stop()


@asynccontextmanager
async def nudges_out(_monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    once = broken(RedisNudges, "_publish_all", lambda self: self._closed.wait(20))
    made = _nudges()
    yield once, lambda: made.publish("work")
    made.close()


@asynccontextmanager
async def nudges_in(_monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    once = broken(RedisNudges, "_subscribe_all", lambda self: self._closed.wait(20))
    made = _nudges()
    yield once, made.subscribe
    made.close()


def _nudges() -> RedisNudges:
    return RedisNudges(
        "redis://127.0.0.1:1", "channel", on_nudge=lambda _name: None, on_reconnect=lambda: None
    )


@asynccontextmanager
async def places(_monkeypatch: pytest.MonkeyPatch, _broken: Break) -> AsyncIterator[Piece]:
    once = BrokenOnce(lambda *_some, **_more: 1)
    redis: Any = SimpleNamespace(run=once.call)
    made = StreamLeases(redis)
    yield once, lambda: made.acquire("somebody", limit=3)


@asynccontextmanager
async def profiles_file(_monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    once = broken(profiles, "take_over_file", nothing)
    part = profiles.ProfilesFilePart()
    await part.start()
    yield once, lambda: None
    await part.stop()


@asynccontextmanager
async def streams(_monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    once = broken(Hub, "_run", for_ever)
    hub = Hub()
    hub.start()
    yield once, lambda: None
    await hub.stop()


@asynccontextmanager
async def registration(_monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    once = broken(WorkerService, "_keep_registered", for_ever)
    service: Any = object.__new__(WorkerService)
    service._supervisor = SimpleNamespace(run=for_ever, stop=lambda: None)
    service._connection = SimpleNamespace(
        client=None, control_plane=SimpleNamespace(last_heartbeat_at="")
    )
    working = asyncio.create_task(service.run())
    yield once, lambda: None
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


@asynccontextmanager
async def celery(monkeypatch: pytest.MonkeyPatch, _broken: Break) -> AsyncIterator[Piece]:
    over = asyncio.Event()
    once = BrokenOnce(lambda: asyncio.run(_until(over)))
    worker = SimpleNamespace(start=once.call, stop=over.set, exitcode=1)
    monkeypatch.setattr(embedded, "_worker", lambda: worker)
    made = embedded.CeleryThread()
    made.start()
    yield once, lambda: None
    made.stop()


@asynccontextmanager
async def demo(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    for name in ("CeleryThread", "EmbeddedServer"):
        monkeypatch.setattr(up, name, SimpleNamespace)
    once = broken(demos, "show", nothing)
    up.Up()._demo.start()
    yield once, lambda: None


@asynccontextmanager
async def mock_files(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    monkeypatch.setattr(served_suite, "LOOK_S", 0.01)
    once = broken(ServedSuite, "check", nothing)
    files = ServedFiles(ROOT / "examples" / "oci-suites" / "shop")
    made = ServedSuite(files, "", kept=lambda _why, _where: None)
    made.start(lambda _reading: None)
    yield once, lambda: None
    made.stop()


@asynccontextmanager
async def mock_spaces(_monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    once = broken(Spaces, "refresh", nothing)
    made = Planes().spaces
    made.start()
    yield once, lambda: None
    made.stop()


@asynccontextmanager
async def mock_journal(_monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    once = broken(RedisJournal, "send", nothing)
    made = RedisJournal(RedisLink("redis://127.0.0.1:1/0"), str, gather_s=0.01)
    call = NotedCall("1", 0, "GET", "/", "a", "", "", CallOutcome.EXAMPLE, 200, 1.0, [], b"")
    yield once, lambda: made.add("s", call)
    made.close()


@asynccontextmanager
async def presence(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    once = broken(Presence, "note", nothing)
    monkeypatch.setattr(Presence, "leave", lambda _self: None)
    made = Presence(each_s=0.01)
    made.start()
    yield once, lambda: None
    made.stop()


@asynccontextmanager
async def pods(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    async def pause(_self: PodWatch, _version: str) -> str:
        await asyncio.sleep(0.01)
        return ""

    async def no_version(_self: PodWatch) -> str:
        return ""

    monkeypatch.setattr(PodWatch, "_watch", pause)
    once = broken(PodWatch, "_list", no_version)
    access = ClusterAccess(server="http://x", trust=ssl.create_default_context(), token=str)
    client = ClusterClient(access, "default")
    made = PodWatch(client, "")
    made.start()
    yield once, lambda: None
    await made.close()
    await client.close()


@asynccontextmanager
async def settings(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    monkeypatch.setattr(runners, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(runners, "set_up_supervisors", lambda _runtime: ())
    once = broken(Runner, "_apply_settings", at_once)
    made = Runner("process")
    task = asyncio.create_task(made.keep_following_settings())
    yield once, lambda: None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def environment_looks(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    async with inventory_loop(monkeypatch, broken, "look_if_due", "keep_looking") as piece:
        yield piece


@asynccontextmanager
async def environment_sweeps(
    monkeypatch: pytest.MonkeyPatch, broken: Break
) -> AsyncIterator[Piece]:
    async with inventory_loop(monkeypatch, broken, "sweep_if_due", "keep_sweeping") as piece:
        yield piece


@asynccontextmanager
async def inventory_loop(
    monkeypatch: pytest.MonkeyPatch, broken: Break, work: str, loop: str
) -> AsyncIterator[Piece]:
    monkeypatch.setattr(inventory, "POLL_S", 0.01)
    once = broken(InventoryLoops, work, at_once)
    task = asyncio.create_task(getattr(InventoryLoops(lambda: ()), loop)())
    yield once, lambda: None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def shells(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    monkeypatch.setattr(shell_loop, "POLL_S", 0.01)
    once = broken(ShellLoop, "serve_new", at_once)
    task = asyncio.create_task(ShellLoop(lambda: ()).keep_serving())
    yield once, lambda: None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def repeats(monkeypatch: pytest.MonkeyPatch, broken: Break) -> AsyncIterator[Piece]:
    monkeypatch.setattr(repeat_loop, "POLL_S", 0.01)
    once = broken(RepeatLoop, "poll", at_once)
    task = asyncio.create_task(RepeatLoop(lambda: ()).keep_repeating())
    yield once, lambda: None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


PIECES = {
    "sweeper": sweeping,
    "artifacts": artifact_sweep,
    "enqueue": publishing,
    "registries": registries,
    "suites-at-start": suites_at_start,
    "profiles-file": profiles_file,
    "audit": auditing,
    "leases": leases,
    "orders": orders,
    "store": store,
    "runner": runner,
    "settings": settings,
    "environment-looks": environment_looks,
    "environment-sweeps": environment_sweeps,
    "shells": shells,
    "repeats": repeats,
    "accounts": tidying,
    "platform-settings": refreshing,
    "streams-nudge-out": nudges_out,
    "streams-nudge-in": nudges_in,
    "stream-leases": places,
    "streams": streams,
    "mock-spaces": mock_spaces,
    "mock-journal": mock_journal,
    "presence": presence,
    "registration": registration,
    "celery": celery,
    "demo": demo,
    "mock-files": mock_files,
    "pods": pods,
}
SUPERVISOR = ("heartbeat", "claims", "samples")


@pytest.mark.slow
@pytest.mark.parametrize("name", PIECES)
async def test_each_loop_comes_back(name: str, monkeypatch: pytest.MonkeyPatch, broken: Break):
    before = metrics.value_of("partita.background.failures", loop=name)

    async with PIECES[name](monkeypatch, broken) as (once, poke):
        await comes_back(name, once, poke)

    assert background.failures()[name] == 1
    assert metrics.value_of("partita.background.failures", loop=name) == before + 1


async def test_every_loop_of_a_supervisor_comes_back(stage: Stage, broken: Break):
    loops = {
        "heartbeat": broken(SupervisorHeartbeat, "run"),
        "claims": broken(Supervisor, "_claim_forever"),
        "samples": broken(UsageSampler, "run"),
    }
    assert sorted(loops) == sorted(SUPERVISOR)

    async with stage.supervisor():
        job = await stage.add("serve")
        await stage.store.state(job, "running")
        for name, once in loops.items():
            await comes_back(name, once)


async def test_a_failing_loop_makes_the_server_not_ready(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(background, "FIRST_PAUSE_S", 60.0)

    async def body() -> None:
        raise Unforeseen

    task = asyncio.create_task(background.keep_running("test-loop", body))
    await asyncio.sleep(0.05)
    found = probing.check_background()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert (found.ready, found.detail) == (False, "failed: test-loop")
    assert probing.check_background().ready
