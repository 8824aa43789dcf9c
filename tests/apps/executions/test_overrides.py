"""Variables that the platform gives every step (reference: control-plane 4, 10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.profiles.api import SecretRef
from tests.apps.executions.runs import Worker, booted_run, node, profile

FILE = """\
agents: [{agentId: local-docker, name: Local, type: local}]
secrets:
  globalOverrides:
    - {key: REGION, value: eu}
    - {key: LEVEL, value: from the platform}
    - {key: TOKEN, value: hunter22, sensitive: true}
"""


@pytest.fixture(autouse=True)
def _overrides(settings: Any, tmp_path: Path) -> None:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    settings.PLATFORM_SETTINGS_FILE.write_text(FILE)


def claimed(worker: Worker, step: dict[str, Any], **facts: Any) -> Any:
    booted_run(step, with_profile=profile(**facts))
    worker.claim()
    return worker.jobs[step["id"]]


def test_an_override_stands_above_the_profile_and_below_the_node(worker: Worker):
    spec = claimed(
        worker,
        node("a", env={"LEVEL": "from the node"}),
        env={"REGION": "us", "LEVEL": "from the profile", "KEPT": "yes"},
    )

    env = spec["env"]
    assert (env["REGION"], env["LEVEL"], env["KEPT"]) == ("eu", "from the node", "yes")


def test_a_sensitive_override_is_masked_like_a_secret(worker: Worker):
    """Invariant 19: but not where the node says something else."""
    spec = claimed(worker, node("a"))
    assert (spec["env"]["TOKEN"], spec["secretKeys"]) == ("hunter22", ["TOKEN"])


def test_what_the_node_says_instead_is_no_secret(worker: Worker):
    spec = claimed(worker, node("a", env={"TOKEN": "none"}))
    assert (spec["env"]["TOKEN"], spec["secretKeys"]) == ("none", [])


def test_a_local_secret_may_be_an_override(worker: Worker):
    reference = SecretRef(key="PASSWORD", provider="local", ref="TOKEN")
    spec = claimed(worker, node("a"), secret_refs=(reference,))
    assert spec["env"]["PASSWORD"] == "hunter22"
    assert spec["secretKeys"] == ["PASSWORD", "TOKEN"]


def test_a_log_node_shows_no_sensitive_override():
    run = booted_run(
        node("say", kind="log", variant="info", message="{{env.REGION}} {{env.TOKEN}}")
    )
    assert [line["text"] for line in run.lines("user")] == ["eu ***"]
