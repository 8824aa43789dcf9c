"""A runtime in memory: passes the contract tests of the port, runs thousands of steps a second.

What a step does is said by its command: a list of small words, one after another:
`out:<text>` `err:<text>` `sleep:<seconds>` `exit:<code>` `serve`, `busy` (until stopped) `oom`
`write:<path in artifacts>=<text>`, `drop:` in the step's directory, `share:` in the shared one,
`env:<name>` (prints its value) `cat:<path in the step's directory>` `listen:<port>`.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace

from kernel import clock
from kernel.agent_protocol import RuntimeResource, StepUsage
from tests.support.fake_shell import FakeShell, require_known_program
from worker.domain import ownership
from worker.domain.evaluation import UnitExit
from worker.domain.exports import search_shared, searches, shared_hint
from worker.domain.output_records import OutputRecord, Stream
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import (
    ARTIFACTS,
    CONTAINER_FOLDERS,
    STEP_DIRECTORY,
    STOP_GRACE_S,
    WORKSPACE,
    Collected,
    CollectedFile,
    ImageMissing,
    Launch,
    NeverBegan,
    Progress,
    RemovedResources,
    Runtime,
    RuntimeUnavailable,
    StartFailed,
    Unit,
    UnitLost,
    UnitState,
)
from worker.domain.shells import Shell, ShellRequest

TERMINATED = 143
_FOLDERS = {"write": ARTIFACTS, "drop": STEP_DIRECTORY, "share": WORKSPACE}


@dataclass
class FakeUnit:
    unit: Unit
    launch: Launch
    records: list[OutputRecord] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    listens: set[int] = field(default_factory=set)
    inside: list[FakeShell] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    ended: UnitExit | None = None
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


def _unpacked(content: bytes) -> dict[str, str]:
    """Return the files of a suite (tar+gzip) by their path in the shared directory."""
    if not content:
        return {}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        bodies = {member.name: archive.extractfile(member) for member in archive}
        return {
            f"{WORKSPACE}/{name}": body.read().decode() for name, body in bodies.items() if body
        }


class FakeRuntime(Runtime):
    """Units outlive the supervisor that started them as long as this object lives."""

    opens_shells = True

    def __init__(self, *, images: Sequence[str] = ("busybox:1.36",)) -> None:
        self.units: dict[str, FakeUnit] = {}
        self.images = set(images)
        self.pulled: list[str] = []
        self.started: list[str] = []
        self.filled: dict[str, bytes] = {}
        self.shared_files: dict[str, dict[str, str]] = {}  # workspace → path → text
        self.away = False
        self.released: list[str] = []
        self.ports: dict[int, int] = {}  # a unit's port → a real one of this host
        self.usages = [
            StepUsage(cpu_percent=12.5, memory_bytes=34 * 2**20)
        ]  # told in turn; last stays
        self.stood_by: list[Launch] = []  # what was to be created ahead
        self.starts_ahead = True
        self.ahead: dict[tuple[str, str], Launch] = {}  # what waits at its gate, by run and step
        self.went_ahead: list[str] = []  # units whose gate was opened
        self.lost_releases: dict[str, int] = {}  # step → how many units do not hear of theirs
        self.looked: list[str] = []  # units that were asked for their usage
        self.usage_hangs = False
        self.shells: dict[str, FakeShell] = {}  # by the id of the shell, closed ones too
        self.short_of: dict[str, str] = {}  # step → why its units cannot start before `has_enough`
        self.has_enough = asyncio.Event()
        self.abandoned: set[str] = set()  # shells that an earlier process left open

    async def ping(self) -> bool:
        return not self.away

    async def close(self) -> None:
        for each in self.units.values():
            if each.task:
                each.task.cancel()

    async def prepare(self, launch: Launch, *, pulling: Progress, waiting: Progress) -> None:
        if not launch.image:
            raise ImageMissing("no image is declared")
        if launch.image not in self.images:
            await pulling(launch.image)
            self.pulled.append(launch.image)
            raise ImageMissing(f"image {launch.image} cannot be pulled")
        if launch.step_id in self.short_of:
            await waiting(self.short_of[launch.step_id])
            await self.has_enough.wait()
            await waiting("")

    async def start(self, launch: Launch) -> Unit:
        if self.away:
            raise RuntimeUnavailable("the fake runtime is away")
        await self._remove_earlier(launch)
        waiting = self.ahead.pop((launch.run_id, launch.step_id), None)
        if waiting and (waiting.name, waiting.environment) == (launch.name, launch.environment):
            self.went_ahead.append(launch.name)
        if not self.filled.get(launch.workspace.name):
            self.filled[launch.workspace.name] = await launch.workspace.fetch()
            self.shared_files[launch.workspace.name] = _unpacked(self.filled[launch.workspace.name])
        if launch.name not in self.units:
            self._begin(launch)
        return self.units[launch.name].unit

    async def stand_by(self, launch: Launch) -> None:
        if self.away:
            raise RuntimeUnavailable("the fake runtime is away")
        await launch.workspace.fetch()
        self.stood_by.append(launch)

    async def start_ahead(self, launch: Launch) -> bool:
        if self.away:
            raise RuntimeUnavailable("the fake runtime is away")
        if launch.kind == "service" or launch.ports or not self.units:
            return False
        await launch.workspace.fetch()
        self.ahead[launch.run_id, launch.step_id] = launch
        return True

    async def remove_ahead(self, run_id: str, step_id: str) -> None:
        self.ahead.pop((run_id, step_id), None)

    async def _remove_earlier(self, launch: Launch) -> None:
        for each in list(self.units.values()):
            same = (each.launch.run_id, each.launch.step_id) == (launch.run_id, launch.step_id)
            if same and each.launch.attempt < launch.attempt:
                await self.remove(each.unit)

    def _begin(self, launch: Launch) -> None:
        argv = launch.program.argv
        if argv and argv[0].startswith("/no/such"):
            raise StartFailed(f"{argv[0]}: no such file")
        self.started.append(launch.name)
        unit = Unit(
            id=launch.name,
            name=launch.name,
            state=UnitState.RUNNING,
            labels=launch.labels,
            started_at=clock.now(),
        )
        running = FakeUnit(unit=unit, launch=launch)
        if launch.step_files is not None:  # the runtime has no other use for the files of a step
            shared = _unpacked(launch.step_files).items()
            running.files = {path.replace(WORKSPACE, STEP_DIRECTORY): text for path, text in shared}
        self.units[launch.name] = running
        running.task = asyncio.create_task(self._run(running))

    async def _run(self, running: FakeUnit) -> None:
        acting = asyncio.create_task(self._acts(running))
        stopping = asyncio.create_task(running.stopped.wait())
        await asyncio.wait({acting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        acting.cancel()
        await asyncio.wait({acting})
        await self._end(
            running, UnitExit(exit_code=TERMINATED) if acting.cancelled() else acting.result()
        )

    async def _acts(self, running: FakeUnit) -> UnitExit:
        for word in running.launch.program.argv:
            verb, _, rest = word.partition(":")
            if verb == "exit":
                return UnitExit(exit_code=int(rest))
            if verb == "oom":
                return UnitExit(exit_code=137, oom_killed=True)
            await self._act(running, verb, rest)
        return UnitExit(exit_code=0)

    async def _act(self, running: FakeUnit, verb: str, rest: str) -> None:
        if verb in ("out", "err"):
            await self.say(running, "stdout" if verb == "out" else "stderr", rest)
        elif verb == "env":
            await self.say(running, "stdout", running.launch.environment.get(rest, ""))
        elif verb == "sleep":
            await asyncio.sleep(float(rest))
        elif verb in ("serve", "busy"):
            await asyncio.Event().wait()
        elif verb in _FOLDERS:
            shared = self.shared_files[running.launch.workspace.name]
            name, _, text = rest.partition("=")
            files = shared if verb == "share" else running.files
            files[f"{_FOLDERS[verb]}/{name}"] = text
        elif verb == "cat":
            await self.say(running, "stdout", running.files.get(f"{STEP_DIRECTORY}/{rest}", ""))
        elif verb == "listen":
            running.listens.add(int(rest))

    async def say(self, running: FakeUnit, stream: Stream, text: str) -> None:
        async with running.changed:
            position = len(running.records) + 1
            running.records.append(
                OutputRecord(position, stream, f"{text}\n".encode(), clock.rfc3339(clock.now()))
            )
            running.changed.notify_all()

    async def _end(self, running: FakeUnit, ended: UnitExit) -> None:
        async with running.changed:
            running.ended = ended
            running.unit = replace(running.unit, state=UnitState.ENDED)
            running.changed.notify_all()
        for shell in running.inside:
            await shell.end(TERMINATED)

    def _of(self, unit: Unit) -> FakeUnit:
        if self.away:
            raise RuntimeUnavailable("the fake runtime is away")
        try:
            return self.units[unit.id]
        except KeyError:
            raise UnitLost(unit.name) from None

    async def output(self, unit: Unit, *, after: int = 0) -> AsyncGenerator[Sequence[OutputRecord]]:
        running = self._of(unit)
        while fresh := await self._fresh(running, after):
            after = fresh[-1].position
            yield fresh

    async def _fresh(self, running: FakeUnit, after: int) -> list[OutputRecord]:
        async with running.changed:
            await running.changed.wait_for(
                lambda: len(running.records) > after or running.ended is not None
            )
            return running.records[after:]

    async def wait(self, unit: Unit) -> UnitExit:
        running = self._of(unit)
        if self.lost_releases.get(running.launch.step_id, 0) > 0:
            self.lost_releases[running.launch.step_id] -= 1
            del self.units[unit.id]
            if running.task:
                running.task.cancel()
            raise NeverBegan("its release did not reach it: nothing has run")
        async with running.changed:
            await running.changed.wait_for(lambda: running.ended is not None)
        assert running.ended is not None
        return running.ended

    async def stop(self, unit: Unit, *, grace_s: float = STOP_GRACE_S) -> None:
        del grace_s
        running = self._of(unit)
        running.stopped.set()
        await self.wait(unit)

    async def remove(self, unit: Unit) -> None:
        if unit.id in self.units:
            await self.stop(unit)
            removed = self.units.pop(unit.id, None)
            for shell in removed.inside if removed else ():
                await shell.end(TERMINATED)

    async def run_inside(self, unit: Unit, argv: Sequence[str], *, timeout_s: float) -> int:
        del timeout_s
        self._of(unit)
        return 0 if list(argv)[-1] == "true" else 1

    async def endpoint(self, unit: Unit, port: int) -> tuple[str, int] | None:
        real = self.ports.get(port, port)
        return ("127.0.0.1", real) if port in self._of(unit).listens else None

    async def is_healthy(self, unit: Unit) -> bool:
        return self._of(unit).ended is None

    async def usage(self, unit: Unit) -> StepUsage | None:
        self.looked.append(unit.name)
        if self.usage_hangs:
            await asyncio.Event().wait()
        if self._of(unit).ended:
            return None
        return self.usages.pop(0) if len(self.usages) > 1 else self.usages[0]

    async def collect(self, unit: Unit, pattern: str) -> Collected:
        running = self._of(unit)
        files = running.files | self.shared_files[running.launch.workspace.name]
        for search in searches(pattern, CONTAINER_FOLDERS):
            found = [path for path in sorted(files) if search.matches(path)]
            if found:
                return Collected(
                    files=tuple(
                        CollectedFile(path=search.strip_prefix(path), body=files[path].encode())
                        for path in found
                    )
                )
        shared = search_shared(pattern, CONTAINER_FOLDERS)
        if shared and any(shared.matches(path) for path in files):
            return Collected(hint=shared_hint(pattern))
        return Collected()

    async def open_shell(self, unit: Unit, request: ShellRequest) -> Shell:
        running = self._of(unit)
        require_known_program(request)
        files = running.files | self.shared_files[running.launch.workspace.name]
        shell = FakeShell(request, running.launch.environment, files)
        shell.notice = "This is a copy of the ended step." if running.ended else ""
        self.shells[request.shell_id] = shell
        running.inside.append(shell)
        return shell

    async def end_shells(self, owner: UnitOwner) -> int:
        """End those that a test has named in `abandoned`."""
        del owner
        if self.away:
            raise RuntimeUnavailable("the fake runtime is away")
        left = [self.shells[shell_id] for shell_id in sorted(self.abandoned)]
        self.abandoned.clear()
        for shell in left:
            await shell.close()
        return len(left)

    async def find(self, owner: UnitOwner) -> Sequence[Unit]:
        return [
            each.unit
            for each in self.units.values()
            if each.unit.labels[ownership.ORCHESTRATOR] == owner.orchestrator_id
        ]

    async def list_resources(self) -> Sequence[RuntimeResource]:
        if self.away:
            raise RuntimeUnavailable("the fake runtime is away")
        return [
            RuntimeResource(
                kind="container",
                id=each.unit.id,
                name=each.unit.name,
                created_at=(each.unit.started_at or clock.now()).replace(microsecond=0),
                labels=each.unit.labels,
                state="exited" if each.ended else "running",
                exit_code=each.ended.exit_code if each.ended else None,
            )
            for each in self.units.values()
        ]

    async def remove_resource(self, resource: RuntimeResource) -> bool:
        if resource.id in self.units:
            await self.remove(self.units[resource.id].unit)
        return resource.id not in self.units

    async def release(self, run_id: str, owner: UnitOwner) -> RemovedResources:
        del owner
        self.released.append(run_id)
        for key in [key for key in self.ahead if key[0] == run_id]:
            del self.ahead[key]
        units = [each.unit for each in self.units.values() if each.launch.run_id == run_id]
        for unit in units:
            await self.remove(unit)
        return RemovedResources(containers=len(units))
