"""The environment of a step: its layers and the variables that every step gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

WORKSPACE_DIR: Final = "/partita/workspace"
ARTIFACTS_DIR: Final = "/partita/artifacts"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIns:
    """What the built-in variables say (reference: control-plane 13.2)."""

    execution_id: str
    suite_id: str
    source_suite_id: str
    profile: str
    step_id: str
    step_name: str
    step_kind: str
    attempt: int
    mock_base_url: str

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
            "ARTIFACTS_DIR": ARTIFACTS_DIR,
            "MOCK_BASE_URL": self.mock_base_url,
        }
        return {f"{prefix}_{name}": text for prefix in prefixes for name, text in values.items()}


def layered_env(
    node: Mapping[str, Any],
    *,
    profile: Mapping[str, Any],
    overrides: Mapping[str, str],
    secrets: Mapping[str, str],
    built_ins: Mapping[str, str],
) -> dict[str, str]:
    """Low to high: profile, overrides, node, the profile's entry of the step, secrets, built-ins.

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
