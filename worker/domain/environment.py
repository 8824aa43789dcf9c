"""The environment of a step: what its spec says, over it the built-in variables.

(reference: control-plane 13.2)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from worker.domain.step_spec import StepSpec

GATEWAY_HOST = "host.docker.internal"
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 - names to replace, not to bind


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnvironmentRules:
    """`telemetry`: variables added when traces are on; what is a URL is one from this host."""

    prefixes: Sequence[str] = ("PARTITA",)
    telemetry: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where the step finds its files; `own_host`: it runs on this host's own loopback."""

    workspace: str
    artifacts: str
    own_host: bool = False


def step_environment(
    spec: StepSpec, rules: StepEnvironmentRules, folders: Folders
) -> dict[str, str]:
    """Name → value; the built-in ones win. The address of mocks comes with the spec."""
    environment = dict(spec.env)
    for prefix in rules.prefixes:
        variables = {f"{prefix}_{name}": value for name, value in _built_in(spec, folders)}
        base = f"{prefix}_MOCK_BASE_URL"
        environment |= variables | {base: _reachable(spec.env.get(base, ""), folders)}
    if spec.traceparent:
        there = {name: _reachable(text, folders) for name, text in rules.telemetry.items()}
        environment |= {"TRACEPARENT": spec.traceparent, **there}
    return environment


def _built_in(spec: StepSpec, folders: Folders) -> Iterator[tuple[str, str]]:
    yield "EXECUTION_ID", spec.execution_id
    yield "SUITE_ID", spec.suite_id
    yield "SOURCE_SUITE_ID", spec.source_suite_id
    yield "PROFILE", spec.profile
    yield "STEP_ID", spec.node.id
    yield "STEP_NAME", spec.node.name
    yield "STEP_KIND", spec.node.kind
    yield "ATTEMPT", str(spec.attempt)
    yield "WORKSPACE_DIR", folders.workspace
    yield "ARTIFACTS_DIR", folders.artifacts
    for key, url in spec.mock_urls.items():
        yield f"MOCK_{_variable(key)}_URL", _reachable(url, folders)


def _variable(key: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", key.upper())


def _reachable(url: str, folders: Folders) -> str:
    """A loopback host means the host, which a container knows by another name."""
    parts = urlsplit(url)
    if folders.own_host or parts.hostname not in _LOOPBACK:
        return url
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit(parts._replace(netloc=GATEWAY_HOST + port))
