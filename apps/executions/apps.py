from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class ExecutionsConfig(AppConfig):
    name = "apps.executions"
    label = "executions"
    lifespan_parts: ClassVar = {
        "artifacts": "apps.executions.services.artifact_sweeper.ArtifactSweeperPart",
        "sweeper": "apps.executions.services.sweep.SweeperPart",
    }
    probes: ClassVar = {"artifacts": "apps.executions.selectors.artifact_bytes.ARTIFACTS"}

    mock_spaces: ClassVar = {"run": "apps.executions.selectors.mock_spaces.RUN_SPACES"}
    suite_users: ClassVar = {"executions": "apps.executions.selectors.runs.uses_suite"}
    run_readers: ClassVar = {"executions": "apps.executions.selectors.runs.get_execution"}
