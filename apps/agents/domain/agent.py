"""A supervisor as the control plane registers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, NotRequired, TypedDict

from kernel.clock import rfc3339
from kernel.errors import NotFound, PlatformError
from kernel.wire_types import Instant

OFFLINE_AFTER: Final = timedelta(seconds=30)
Kind = Literal["runner", "worker"]


class AgentNotFound(NotFound):
    code = "agent_not_found"

    def __init__(self) -> None:
        super().__init__("there is no agent with that id")


class RunnerOnline(PlatformError):
    """A runner that is at work is not removed: its process would register again at once."""

    code = "agent_online"

    def __init__(self, agent_id: str) -> None:
        super().__init__(
            f"{agent_id} is the runner of this control plane and is online: drain it to keep new "
            f"runs from it, or stop its process; {OFFLINE_AFTER.seconds} s later it can be removed"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The facts that a supervisor registers with; `incarnation` is new at each start."""

    agent_id: str
    incarnation: str
    kind: Kind
    name: str = ""
    host_url: str = ""
    capabilities: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    host_id: str = ""
    pid: int | None = None
    process_started_at: datetime | None = None
    runtime_available: bool = True


class AgentDocument(TypedDict):
    """The Registration of an agent, as on the wire."""

    agentId: str
    kind: Annotated[Kind, "a runner is beside the store"]
    name: str
    status: Literal["online", "offline"]
    capabilities: list[str]
    backends: list[str]
    labels: dict[str, str]
    registeredAt: Instant
    lastHeartbeatAt: Instant
    runningJobs: Annotated[int, "0 of who is offline"]
    runtimeAvailable: NotRequired[
        Annotated[bool, "whether its container runtime answers; absent of who is offline"]
    ]
    draining: NotRequired[
        Annotated[bool, "true while an administrator drains it: it takes no new runs"]
    ]
    failingLoops: NotRequired[
        Annotated[
            list[str],
            "background loops of its process that fail; absent when none does, or offline",
        ]
    ]
    hostUrl: NotRequired[str]
    version: NotRequired[str]
    offlineSince: NotRequired[Annotated[Instant, "of who is offline: when it was last heard of"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """`labels`: key → value, empty for bare keys; `runs`: run ids it has resources of.

    `failing_loops`: background loops of its process that failed at its last heartbeat.
    `drained_at`: since when it finishes its runs and takes no new ones, `drained_by`: whose doing.
    """

    agent_id: str
    incarnation: str
    kind: Kind
    name: str
    host_url: str
    capabilities: tuple[str, ...]
    backends: tuple[str, ...]
    labels: Mapping[str, str]
    version: str
    registered_at: datetime
    last_heartbeat_at: datetime
    runtime_available: bool
    runs: tuple[str, ...]
    running_jobs: int
    host_id: str
    pid: int | None
    process_started_at: datetime | None
    failing_loops: tuple[str, ...] = ()
    drained_at: datetime | None = None
    drained_by: str = ""

    @property
    def draining(self) -> bool:
        return self.drained_at is not None

    def is_online(self, now: datetime) -> bool:
        return now - self.last_heartbeat_at < OFFLINE_AFTER

    def as_wire(self, now: datetime) -> AgentDocument:
        """Return the Registration (reference: control-plane 15.1).

        Offline agents run no jobs, and none of their loops is known to fail.
        """
        online, heard = self.is_online(now), rfc3339(self.last_heartbeat_at)
        document: AgentDocument = {
            "agentId": self.agent_id,
            "kind": self.kind,
            "name": self.name,
            "status": "online" if online else "offline",
            "capabilities": list(self.capabilities),
            "backends": list(self.backends),
            "labels": dict(self.labels),
            "registeredAt": rfc3339(self.registered_at),
            "lastHeartbeatAt": heard,
            "runningJobs": self.running_jobs if online else 0,
        }
        if online:
            document["runtimeAvailable"] = self.runtime_available
        if self.draining:
            document["draining"] = True
        if online and self.failing_loops:
            document["failingLoops"] = list(self.failing_loops)
        if self.host_url:
            document["hostUrl"] = self.host_url
        if self.version:
            document["version"] = self.version
        if not online:
            document["offlineSince"] = heard
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """`agent_token` is shown only once; empty for runners."""

    agent: Agent
    agent_token: str = ""
