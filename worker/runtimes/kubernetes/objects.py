"""What the runtime reads of the objects of a cluster; other fields are ignored."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

STEP_CONTAINER: Final = "step"
FILLER: Final = "files"  # the init container
KEEPER: Final = "keeper"  # holds the directories of the step after its end, and acts for it
ADDED_KEEPER: Final = "keeper-"  # and a number: in the place of one that ended too early
_OVER: Final = frozenset({"Succeeded", "Failed"})  # phases in which no container runs


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None


class Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, frozen=True, rename="camel"):
    started_at: str | None = None


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True):
    name: str
    state: ContainerState = ContainerState()


class PodCondition(msgspec.Struct, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()


class PodContainer(msgspec.Struct, frozen=True):
    name: str
    image: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: tuple[PodContainer, ...] = ()
    ephemeral_containers: tuple[PodContainer, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def is_going(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    def state_of(self, container: str) -> ContainerState:
        """Return the state of a container; an empty one while the kubelet has reported none."""
        status = self.status
        for each in (
            *status.container_statuses,
            *status.init_container_statuses,
            *status.ephemeral_container_statuses,
        ):
            if each.name == container:
                return each.state
        return ContainerState()

    @property
    def step(self) -> ContainerState:
        return self.state_of(STEP_CONTAINER)

    @property
    def keeper(self) -> str | None:
        """Return the container that keeps the pod's directories; None if each has ended."""
        if self.status.phase in _OVER:
            return None
        added = [each.name for each in self.spec.ephemeral_containers]
        names = (KEEPER, *(name for name in added if name.startswith(ADDED_KEEPER)))
        return None if self.state_of(names[-1]).terminated else names[-1]

    @property
    def image(self) -> str:
        return next(
            (each.image for each in self.spec.containers if each.name == STEP_CONTAINER), ""
        )


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ObjectList(Protocol):
    """One page of a list."""

    @property
    def metadata(self) -> ListMeta: ...


class PodList(msgspec.Struct, frozen=True):
    metadata: ListMeta
    items: tuple[Pod, ...] = ()


class AnyObject(msgspec.Struct, frozen=True):
    """An object of which only the metadata counts: a Secret, a Service, a claim."""

    metadata: Meta


class AnyList(msgspec.Struct, frozen=True):
    """Objects of which only the metadata counts: the API server is asked for nothing else."""

    metadata: ListMeta
    items: tuple[AnyObject, ...] | None = None  # the API server sends null if there is none


class Secret(msgspec.Struct, frozen=True):
    """`data`: base64 texts."""

    metadata: Meta
    data: dict[str, str] = {}


class SecretList(msgspec.Struct, frozen=True):
    metadata: ListMeta
    items: tuple[Secret, ...] = ()


class ClusterEvent(msgspec.Struct, frozen=True):
    type: str = ""
    reason: str = ""
    message: str = ""


class EventList(msgspec.Struct, frozen=True):
    metadata: ListMeta
    items: tuple[ClusterEvent, ...] = ()


class StatusCause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class Details(msgspec.Struct, frozen=True):
    causes: tuple[StatusCause, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """An answer of the API server that is not an object: why it refused, or how an exec ended."""

    status: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: Details | None = None


class WatchEvent(msgspec.Struct, frozen=True):
    """`object` is a Pod, for ERROR a Status; of a bookmark only the version counts."""

    type: str
    object: msgspec.Raw
