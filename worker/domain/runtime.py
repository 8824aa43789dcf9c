"""The port to the runtime that runs the steps, and the registry of its plug-ins.

RuntimeFailure
├── ImageMissing       no image declared, not found, not pullable
├── StartFailed        the unit exists but its program cannot start
├── UnitLost           the unit is no longer there
├── PathRefused        an export path leads out of its folder
├── ShellUnavailable   no shell can be opened in the unit
└── RuntimeUnavailable  no answer of the runtime for 30 s
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from pkgutil import resolve_name
from typing import ClassVar, Final, Literal

from kernel.agent_protocol import RuntimeResource, StepUsage
from kernel.pull_credentials import PullCredentials, no_credentials
from kernel.registry import Registry
from worker.domain.cluster_options import NO_CLUSTER, ClusterOptions
from worker.domain.evaluation import UnitExit
from worker.domain.output_records import OutputRecord
from worker.domain.ownership import RUN_ID, UnitOwner
from worker.domain.readiness import HttpProbe, ProbeResponse, TcpProbe
from worker.domain.shells import Shell, ShellRequest
from worker.domain.step_spec import Port

UNAVAILABLE_AFTER_S: Final = 30.0
STOP_GRACE_S: Final = 10.0
MATCH_LIMIT: Final = 50
FILE_LIMIT: Final = 10 * 2**20
WORKSPACE: Final = "/partita/workspace"  # in a container; shared by the steps of a suite
STEP_DIRECTORY: Final = "/partita/step"
ARTIFACTS: Final = "/partita/artifacts"
TOOLS: Final = "/partita/tools"
BUSYBOX: Final = f"{TOOLS}/busybox"  # static: it runs in every image
CANNOT_EXECUTE: Final = 126  # the exit code of shells
Progress = Callable[[str], Awaitable[None]]


class RuntimeFailure(Exception):
    """`reason`: the resulting reason of the step (reference: control-plane 11.4)."""

    reason: str = "internal_error"


class ImageMissing(RuntimeFailure):
    reason = "image_missing"


class StartFailed(RuntimeFailure):
    """The message is the runtime's; the exit code is 127 if the program does not exist."""

    reason = "exit_nonzero"

    def __init__(self, message: str, exit_code: int = 127) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UnitLost(RuntimeFailure):
    reason = "runtime_unavailable"


class NeverBegan(RuntimeFailure):
    """Nothing of the unit's program has run, or will: another `start` replaces the unit."""

    reason = "runtime_unavailable"


class PathRefused(RuntimeFailure):
    reason = "artifact_missing"


class ShellUnavailable(RuntimeFailure):
    """The message tells the person who asked for the shell what to do."""


class RuntimeUnavailable(RuntimeFailure):
    reason = "runtime_unavailable"


class UnitState(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where the step finds its files; `own_host`: it runs on this host's own loopback.

    `workspace` is shared by the steps of a suite. `step` (a copy of the suite's files) and
    `artifacts` belong to one attempt.
    """

    workspace: str
    step: str
    artifacts: str
    own_host: bool = False


CONTAINER_FOLDERS: Final = Folders(workspace=WORKSPACE, step=STEP_DIRECTORY, artifacts=ARTIFACTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitProgram:
    """`entrypoint` None: the image's own. `starts_in`: whose directory it starts in.

    `image-or-step` is the image's, or the step's if the image names none.
    """

    entrypoint: tuple[str, ...] | None = None
    arguments: tuple[str, ...] = ()
    starts_in: Literal["image", "step", "image-or-step"] = "image"

    @property
    def argv(self) -> tuple[str, ...]:
        return (self.entrypoint or ()) + self.arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLimits:
    memory_bytes: int
    cpus: float
    pids: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDirectory:
    """The shared directory: its name on the runtime, and the files of the suite.

    They fill it once, and the directory of each step.
    """

    name: str
    fetch: Callable[[], Awaitable[bytes]]  # tar+gzip of the source suite's files; empty: none


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt of a step, in neutral terms. `networks`: name → the names the unit has there.

    `step_files` (tar+gzip) are in the directory of the step if it shall not have the suite's files.
    """

    name: str
    run_id: str
    step_id: str
    kind: str
    attempt: int
    image: str
    program: UnitProgram
    environment: Mapping[str, str]
    workspace: SharedDirectory
    networks: Mapping[str, tuple[str, ...]]
    ports: tuple[Port, ...]
    limits: UnitLimits
    labels: Mapping[str, str]
    run_labels: Mapping[str, str]
    step_files: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A handle; a started unit is never used twice."""

    id: str
    name: str
    state: UnitState
    labels: Mapping[str, str] = field(default_factory=dict)
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedFile:
    """`path` as it is inside the unit; relative to the step's own directory that it is in."""

    path: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    files: tuple[CollectedFile, ...] = ()
    skipped: tuple[str, ...] = ()  # why further matches were left out, as sentences
    hint: str = ""  # where a file is that was not taken


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedResources:
    containers: int = 0
    networks: int = 0
    volumes: int = 0
    leftovers: tuple[str, ...] = ()


class Runtime(ABC):
    """What runs the steps. Six verbs are required; a runtime overrides what else it can do.

    Calls raise RuntimeUnavailable after 30 s without an answer, UnitLost for an unknown unit.
    """

    shared: bool = False  # other supervisors reach the same units
    opens_shells: ClassVar[bool] = False
    separates_streams: ClassVar[bool] = True  # False: all output counts as stdout
    starts_ahead: bool = False  # `start_ahead` does something

    @abstractmethod
    async def start(self, launch: Launch) -> Unit:
        """Start a unit, or return the one that the same launch started. Raises StartFailed.

        Remove the units of earlier attempts of the step; those that have ended may go later.
        """

    @abstractmethod
    def output(self, unit: Unit, *, after: int = 0) -> AsyncGenerator[Sequence[OutputRecord]]:
        """Yield all records after the first `after` in a stable order; end with the unit.

        The records of stdout are in the order in which they were written, and so are those of
        stderr. Between the two the order is that in which they were read.
        """

    @abstractmethod
    async def wait(self, unit: Unit) -> UnitExit:
        """Return when the unit has ended. Raises RuntimeFailure, NeverBegan among them."""

    @abstractmethod
    async def stop(self, unit: Unit, *, grace_s: float = STOP_GRACE_S) -> None:
        """Send SIGTERM, after `grace_s` SIGKILL; return when the unit has ended."""

    @abstractmethod
    async def find(self, owner: UnitOwner) -> Sequence[Unit]:
        """Return the supervisor's units by label, running and ended."""

    @abstractmethod
    async def release(self, run_id: str, owner: UnitOwner) -> RemovedResources:
        """Remove containers, networks and volumes of the run, in up to 3 tries."""

    async def ping(self) -> bool:
        """Return whether the runtime answers."""
        return True

    async def close(self) -> None:  # noqa: B027 - by default, nothing is held open
        """Release connections and threads; units continue."""

    def folders(self, *, name: str, workspace: str) -> Folders:
        """Return the folders of a unit of that name, by default those of containers."""
        del name, workspace
        return CONTAINER_FOLDERS

    async def prepare(self, launch: Launch, *, pulling: Progress, waiting: Progress) -> None:
        """Make the image present; await `pulling(image)` before a pull. Raises ImageMissing.

        Await `waiting(sentence)` when the unit cannot start yet, `waiting("")` when that is over.
        """
        del launch, pulling, waiting

    async def stand_by(self, launch: Launch) -> None:
        """Create what `start` needs for the launch ahead, if that can be done; start nothing."""
        del launch

    async def start_ahead(self, launch: Launch) -> bool:
        """Start a unit whose program waits for `start`, if that pays; return whether it was."""
        del launch
        return False

    async def remove_ahead(self, run_id: str, step_id: str) -> None:
        """Remove what `start_ahead` started for a step, unless `start` has taken it."""
        del run_id, step_id

    async def remove(self, unit: Unit) -> None:
        """Kill and remove the unit; no error if it is gone."""
        with contextlib.suppress(UnitLost):
            await self.stop(unit, grace_s=0)

    async def runs(self, owner: UnitOwner) -> frozenset[str]:
        """Return the runs that have resources here, by default those of the units."""
        return frozenset(unit.labels[RUN_ID] for unit in await self.find(owner))

    async def list_resources(self) -> Sequence[RuntimeResource]:
        """Return every container, network and volume of this installation, of any supervisor.

        By default none is listed. One call per kind; no call per container.
        """
        return ()

    async def look_at(self, resource: RuntimeResource) -> RuntimeResource | None:
        """Return the resource as it is now; None if there is none with its kind and id."""
        listed = await self.list_resources()
        same = (each for each in listed if (each.kind, each.id) == (resource.kind, resource.id))
        return next(same, None)

    async def remove_resource(self, resource: RuntimeResource) -> bool:
        """Remove a resource of this installation, killing what runs; return whether it is gone.

        Foreign resources are never touched. Raise RuntimeFailure with the runtime's reason.
        """
        del resource
        return False

    async def endpoint(self, unit: Unit, port: int) -> tuple[str, int] | None:
        """Return where this process reaches the unit's tcp port; None while it cannot."""
        del unit, port
        return None

    async def probe_inside(
        self, unit: Unit, probe: HttpProbe | TcpProbe, headers: Mapping[str, str]
    ) -> ProbeResponse:
        """Probe a unit without `endpoint` from inside its own network, if it has one."""
        del unit, headers
        return ProbeResponse(problem=f"no process of the step listens on port {probe.port}")

    async def run_inside(self, unit: Unit, argv: Sequence[str], *, timeout_s: float) -> int:
        """Run a program, drop its output; return its exit code, 124 after `timeout_s`."""
        del unit, argv, timeout_s
        return CANNOT_EXECUTE

    async def has_health_check(self, unit: Unit) -> bool:
        """Return whether the unit's image has a health check of its own."""
        del unit
        return False

    async def is_healthy(self, unit: Unit) -> bool:
        """Return the current result of the image's own health check."""
        del unit
        return True

    async def usage(self, unit: Unit) -> StepUsage | None:
        """Return the usage, with CPU since the previous call or the start; None after the end."""
        del unit
        return None

    async def collect(self, unit: Unit, pattern: str) -> Collected:
        """Return the files of the ended unit that match an export path. Raises PathRefused."""
        del unit, pattern
        return Collected()

    async def open_shell(self, unit: Unit, request: ShellRequest) -> Shell:
        """Open a shell in a unit, or in a copy of an ended one. Raises ShellUnavailable."""
        del unit, request
        raise ShellUnavailable("shells cannot be opened on this runtime")

    async def end_shells(self, owner: UnitOwner) -> int:
        """End what earlier processes of this supervisor left of their shells; return how many."""
        del owner
        return 0


class RuntimeUnusable(ValueError):
    """The settings of a runtime are unusable; the message contains no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """The settings of all runtimes; each uses its own part."""

    state_dir: Path
    installation_id: str
    pull_policy: str = "IfNotPresent"
    credentials: Callable[[str], PullCredentials | None] = no_credentials  # by image; may block
    helper_image: str = "busybox:1.36"  # for probes of services that this process cannot reach
    address: str = ""  # of the runtime's socket; empty: its own default
    is_remote: bool = False  # of another host: it publishes no ports here, and others reach it
    certificate: str = ""  # PEM texts, for an address that is reached over TLS
    key: str = field(default="", repr=False)
    cluster: ClusterOptions = NO_CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePlugin:
    """A runtime as its module registers it, without its libraries.

    `implementation` is the `module:class` of the Runtime, which is imported when it is opened.
    `title` names the built-in backend; steps of a runtime that does not isolate reach the host.
    """

    summary: str
    title: str
    implementation: str
    isolates: bool = True
    runs_images: bool = True

    def open(self, options: RuntimeOptions) -> Runtime:
        """Import the runtime and return it. Raises RuntimeUnusable."""
        runtime: Runtime = resolve_name(self.implementation)(options)
        return runtime


runtimes: Final[Registry[RuntimePlugin]] = Registry("runtime")
