"""Steps: their environment, their edges in the topology, and the messages of log nodes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple, TypedDict

from apps.executions.domain.states import TERMINAL_STEP, StepStatus
from kernel.agent_protocol import mock_variable
from kernel.errors import FieldError, InvalidInput, known_names
from kernel.wire_types import Count, Instant, keywords

WORKSPACE_DIR: Final = "/partita/workspace"
STEP_DIR: Final = "/partita/step"
ARTIFACTS_DIR: Final = "/partita/artifacts"
WAIT_CHARACTERS: Final = 1000  # of what the start of a unit waits for
_MAX_NAME: Final = 200  # characters of a name that a message repeats
_PLACEHOLDER: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIns:
    """The values of the built-in variables (reference: control-plane 13.2).

    `mock_urls` has the keys of `mock_addresses`.
    """

    execution_id: str
    suite_id: str
    source_suite_id: str
    profile: str
    step_id: str
    step_name: str
    step_kind: str
    attempt: int
    mock_base_url: str
    mock_urls: Mapping[str, str] = field(default_factory=dict)

    def variables(self, prefixes: Sequence[str]) -> dict[str, str]:
        values = {
            "EXECUTION_ID": self.execution_id,
            "SUITE_ID": self.suite_id,
            "SOURCE_SUITE_ID": self.source_suite_id,
            "PROFILE": self.profile,
            "STEP_ID": self.step_id,
            "STEP_NAME": self.step_name,
            "STEP_KIND": self.step_kind,
            "ATTEMPT": str(self.attempt),
            "WORKSPACE_DIR": WORKSPACE_DIR,
            "STEP_DIR": STEP_DIR,
            "ARTIFACTS_DIR": ARTIFACTS_DIR,
            "MOCK_BASE_URL": self.mock_base_url,
            **{mock_variable(key): url for key, url in self.mock_urls.items()},
        }
        return {f"{prefix}_{name}": text for prefix in prefixes for name, text in values.items()}


def step_index(step: str, *, ids: Sequence[str], names: Sequence[str], pointer: str) -> int:
    """Return the index of the step with this id, else with this name.

    `pointer` is the member that named it. Raise InvalidInput, with the nearest of both.
    """
    for known in (ids, names):
        if step in known:
            return known.index(step)
    detail = unknown_step_text(step, ids=ids, names=names)
    error = FieldError(pointer=pointer, code="invalid_value", detail=detail)
    raise InvalidInput(detail, errors=[error])


def unknown_step_text(step: str, *, ids: Sequence[str], names: Sequence[str] = ()) -> str:
    """Return that the run has no such step, with the nearest id or name, else with those it has."""
    near = difflib.get_close_matches(step[:_MAX_NAME], [*ids, *names], n=1)
    hint = f"; did you mean {near[0]}?" if near else known_names(ids)
    return f"the run has no step {step[:_MAX_NAME]!r}{hint}"


class MockAddress(NamedTuple):
    """A surface that a mock node serves, with its adapter."""

    node_id: str
    surface_id: str
    adapter: str


def mock_addresses(mocks: Mapping[str, Mapping[str, str]], step_id: str) -> dict[str, MockAddress]:
    """Return the surfaces that a step of the run can call, by the keys of `mockUrls`.

    `mocks` has the surfaces of each mock node with their adapters. A key is the id of the node, and
    `<id>#<surface>` where it serves several. A step of an imported suite finds the mocks of its own
    suite also under the ids that they have there.
    """
    path = step_id.rpartition("/")[0]
    found: dict[str, MockAddress] = {}
    for near in (False, True):
        for node_id, surfaces in mocks.items():
            served = {surface: adapter for surface, adapter in surfaces.items() if adapter}
            parent, _, own_id = node_id.rpartition("/")
            if near and (not path or parent != path):
                continue
            for surface, adapter in served.items():
                key = own_id if near else node_id
                address = MockAddress(node_id, surface, adapter)
                found[key if len(served) == 1 else f"{key}#{surface}"] = address
    return found


def mock_fault(surfaces: Mapping[str, str]) -> str:
    """Return why a mock with these surfaces and adapters has nothing to serve, "" if it has."""
    empty = [surface for surface, adapter in surfaces.items() if not adapter]
    if surfaces and not empty:
        return ""
    text = f"API surface {empty[0]} has no operation" if empty else "there is no API surface"
    return f"{text} in api/ and mock/ of the suite"


class ProbeBody(TypedDict):
    """What the probe of a service that is not ready answered last, as on the wire."""

    answer: Annotated[str, keywords(maxLength=200), "masked like log lines"]
    tries: Count
    deadline: Annotated[Instant, "when the service fails as `not_ready`"]


class ProbeRecord(ProbeBody):
    """As stored; it is of no use for a later attempt."""

    attempt: int


def probe_of(record: ProbeRecord | None, *, status: str, attempt: int) -> ProbeBody | None:
    """Return the answer that is stored for a step if the step still waits in that attempt."""
    if record is None or status != StepStatus.RUNNING or record["attempt"] != attempt:
        return None
    return {
        "answer": record["answer"],
        "tries": record["tries"],
        "deadline": record["deadline"],
    }


def wait_of(text: str, *, status: str, has_unit: bool) -> str:
    """Return what the start of the step's unit waits for, "" if for nothing, or no more."""
    return text if status == StepStatus.RUNNING and not has_unit else ""


def layered_env(
    node: Mapping[str, Any],
    *,
    profile: Mapping[str, Any],
    overrides: Mapping[str, str],
    secrets: Mapping[str, str],
    built_ins: Mapping[str, str],
) -> dict[str, str]:
    """Merge, low to high: profile, overrides, node, profile entry of the step, secrets, built-ins.

    `profile` has `env` and `services` {id or name of a step: {key: value}}
    (reference: control-plane 10).
    """
    services = profile["services"]
    return {
        **profile["env"],
        **overrides,
        **node.get("env", {}),
        **node.get("runtimeEnv", {}),
        **services.get(node["name"], {}),
        **services.get(node["id"], {}),
        **secrets,
        **built_ins,
    }


def fill_in(message: str, *, env: Mapping[str, str], facts: Mapping[str, str]) -> str:
    """Fill in `{{suite}}`, `{{env.NAME}}` and other facts; leave unknown names as they are."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith("env."):
            return env.get(name[4:], match[0])
        return facts.get(name, match[0])

    return _PLACEHOLDER.sub(replacement, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEdges:
    """The edges of a topology node, as step ids like on the wire."""

    depends_on: tuple[str, ...]
    on_failure: tuple[str, ...]
    continue_on_failure: bool


def step_edges(topology: Sequence[Mapping[str, Any]]) -> dict[str, StepEdges]:
    """Return step id → edges; `topology` holds wire nodes (reference: control-plane 9)."""
    return {
        node["id"]: StepEdges(
            depends_on=tuple(node["dependsOn"]),
            on_failure=tuple(node.get("onFailure", ())),
            continue_on_failure=bool(node.get("continueOnFailure", False)),
        )
        for node in topology
    }


def waiting_on(node: StepEdges, status: str, statuses: Mapping[str, str]) -> list[str]:
    """Return the ids of steps that a pending step waits for; other steps wait for none."""
    if status != StepStatus.PENDING:
        return []
    needs = dict.fromkeys((*node.depends_on, *node.on_failure))
    return [need for need in needs if statuses.get(need) not in TERMINAL_STEP]
