"""What a step's environment will be, and where each value comes from.

The order is that of `layered_env`; values of secrets are never read here.
(reference: control-plane 10)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.executions import conf
from apps.executions.domain.steps import BuiltIns, mock_addresses
from apps.platform_settings.api import global_overrides
from apps.profiles.api import (
    ExplainedValue,
    Layer,
    Profile,
    ProfileNotInSuite,
    SecretRef,
    chain_of,
    default_profile,
    env_layers,
    explain_section,
    find_profile,
    merge_chain,
    service_layers,
)
from apps.suites.api import ResolvedSuite, find_suite, resolve_suite
from kernel.errors import NotFound, known_names
from kernel.redaction import MASK

OVERRIDES: Final = "platform settings"
SUITE: Final = "suite.star"
BUILT_IN: Final = "platform"
_LATER: Final = "set when the run starts"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnvironment:
    """The variables of one step by name; `steps` are all that the suite has under the profile.

    `secrets` are the variables whose value is hidden.
    """

    suite_id: str
    profile: str
    step_id: str
    steps: tuple[str, ...]
    variables: tuple[ExplainedValue, ...]
    secrets: frozenset[str]


def explain_env(suite_id: str, profile: str = "", step: str = "") -> StepEnvironment:
    """Explain the environment of a step (id or name, by default the first) under a profile.

    Raise SuiteNotFound, ProfileNotInSuite, ProfileInvalid, TopologyInvalid, NotFound.
    """
    suite = find_suite(suite_id)
    chosen = _choose_profile(suite.profiles, profile, suite.suite_id)
    chain = chain_of(suite.profiles, chosen) if chosen else []
    merged = merge_chain(suite.profiles, chosen) if chosen else None
    resolved = resolve_suite(suite, profile_env=merged.env if merged else {})
    node = _node(resolved, step)
    secrets = _secret_refs(resolved, node["id"], merged.secret_refs if merged else ())
    overrides = {each.key: MASK if each.sensitive else each.value for each in global_overrides()}
    hidden = {each.key for each in global_overrides() if each.sensitive}
    traces = merged is None or merged.observability.get("traces", True)
    layers = [
        *env_layers(chain),
        Layer(OVERRIDES, overrides),
        Layer(SUITE, node.get("env", {})),
        Layer(f"import {node.get('dependencyAlias', '')}", node.get("runtimeEnv", {})),
        *service_layers(chain, node["name"]),
        *(service_layers(chain, node["id"]) if node["id"] != node["name"] else ()),
        *(Layer(f"{each.provider}: {each.ref}", {each.key: MASK}) for each in secrets),
        Layer(BUILT_IN, _built_ins(resolved, node, chosen, traces=traces)),
    ]
    variables = tuple(explain_section("env", layers))
    hidden |= {each.key for each in secrets}
    return StepEnvironment(
        suite_id=suite.suite_id,
        profile=chosen.file_name if chosen else "",
        step_id=node["id"],
        steps=tuple(each["id"] for each in resolved.topology),
        variables=variables,
        secrets=frozenset(
            each.key for each in variables if each.value == MASK and each.key in hidden
        ),
    )


def _choose_profile(profiles: Sequence[Profile], requested: str, suite_id: str) -> Profile | None:
    if not requested:
        return default_profile(profiles)
    found = find_profile(profiles, requested)
    if found is None:
        known = known_names(each.file_name for each in profiles)
        raise ProfileNotInSuite(f"suite {suite_id} has no profile {requested[:200]!r}{known}")
    return found


def _node(resolved: ResolvedSuite, step: str) -> Mapping[str, Any]:
    nodes = [node for node in resolved.topology if step in ("", node["id"], node["name"])]
    if not nodes:
        known = known_names(node["id"] for node in resolved.topology)
        raise NotFound(f"the suite has no step {step[:200]!r}{known}")
    return nodes[0]


def _secret_refs(
    resolved: ResolvedSuite, step_id: str, of_launch: Sequence[SecretRef]
) -> list[SecretRef]:
    """Return the secrets of a step, as `RunDefinition.secret_refs` does for a run."""
    of_imports = {each.path: each.secret_refs for each in resolved.imports}
    by_key: dict[str, SecretRef] = {}
    path = step_id.rpartition("/")[0]
    while path:
        by_key |= {each.key: each for each in of_imports.get(path, ())}
        path = path.rpartition("/")[0]
    return list((by_key | {each.key: each for each in of_launch}).values())


def _built_ins(
    resolved: ResolvedSuite, node: Mapping[str, Any], profile: Profile | None, *, traces: bool
) -> Mapping[str, str]:
    variables = BuiltIns(
        execution_id=_LATER,
        suite_id=resolved.id,
        source_suite_id=node.get("sourceSuiteId", resolved.id),
        profile=profile.file_name if profile else "",
        step_id=node["id"],
        step_name=node["name"],
        step_kind=node["kind"],
        attempt=1,
        mock_base_url=conf.mock_base_url(),
        mock_urls=dict.fromkeys(mock_addresses(resolved.mocks, node["id"]), _LATER),
    ).variables(conf.env_prefixes())
    return variables | ({"TRACEPARENT": _LATER} if traces else {})
