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

    def ready(self) -> None:
        from apps.mocks.api import run_readers, space_sources  # after all apps are loaded
        from apps.suites.api import suite_users

        path = "apps.executions.selectors.runs.uses_suite"
        suite_users.register_path("executions", path)
        run_readers.register_path("executions", "apps.executions.selectors.runs.get_execution")
        spaces = "apps.executions.selectors.mock_spaces.RUN_SPACES"
        space_sources.register_path("run", spaces)
