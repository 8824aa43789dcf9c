"""Request bodies, and the pages of lists (reference: control-plane 11.1)."""

from __future__ import annotations

from typing import Any, Final

from rest_framework import serializers

from apps.executions.domain.rerun import RerunScope
from apps.executions.domain.runs import MAX_GROUP_LENGTH, RunSummary
from apps.executions.domain.states import ExecutionStatus, StepStatus
from apps.executions.selectors.launchable import LaunchSuiteBody
from apps.executions.selectors.logs import LogMatch
from apps.http.rest import StrictSerializer, page_of
from apps.profiles.api import KEEP_MAX_MS
from kernel.wire_types import Count

_NAME_LENGTH: Final = 300
_TEXT_LENGTH: Final = 10_000
# names of the OpenAPI's enumerations (SPECTACULAR_SETTINGS)
RUN_STATUSES: Final = [status.value for status in ExecutionStatus]
STEP_STATUSES: Final = [status.value for status in StepStatus]


def _optional_text(max_length: int, **more: Any) -> serializers.CharField:
    return serializers.CharField(
        max_length=max_length, required=False, allow_null=True, allow_blank=True, **more
    )


def _keep_alive(**more: Any) -> serializers.IntegerField:
    return serializers.IntegerField(
        min_value=0,
        max_value=KEEP_MAX_MS,
        help_text="how long the environment stays after the verdict; without it as the profile "
        "says, 0: not at all",
        **more,
    )


class ConcurrencyInput(StrictSerializer):
    group = serializers.CharField(
        max_length=MAX_GROUP_LENGTH,
        help_text="of the workspace's runs in a group one is active and the newest other one waits",
    )
    cancelInProgress = serializers.BooleanField(
        required=False, default=False, help_text="cancel the active run of the group, too"
    )


class LaunchInput(StrictSerializer):
    suiteId = serializers.CharField(
        max_length=500, help_text="id of a suite, or a repository reference"
    )
    profile = _optional_text(256, help_text="file name or id")
    backend = _optional_text(
        128, help_text="id; empty or `auto`: the default if available, else the first that is"
    )
    keepAliveMs = _keep_alive(required=False, allow_null=True, default=None)
    trigger = serializers.ChoiceField(
        choices=["Manual", "CI", "API"], required=False, allow_null=True, default="Manual"
    )
    author = _optional_text(_NAME_LENGTH)
    commit = _optional_text(_NAME_LENGTH)
    branch = _optional_text(_NAME_LENGTH)
    message = _optional_text(_TEXT_LENGTH)
    concurrency = ConcurrencyInput(required=False, allow_null=True)


class CancelInput(StrictSerializer):
    reason = _optional_text(_TEXT_LENGTH)


class KeepInput(StrictSerializer):
    keepAliveMs = serializers.IntegerField(
        min_value=1, max_value=KEEP_MAX_MS, help_text="from now on"
    )


class RerunInput(StrictSerializer):
    scope = serializers.ChoiceField(
        choices=[scope.value for scope in RerunScope],
        required=False,
        allow_null=True,
        default=RerunScope.ALL.value,
    )
    step = _optional_text(_NAME_LENGTH, help_text="id or name, for the scope `step`")
    profile = _optional_text(256, help_text="another profile of the suite: file name or id")
    keepAliveMs = _keep_alive(required=False, allow_null=True, default=None)
    dryRun = serializers.BooleanField(
        required=False, allow_null=True, default=False, help_text="answer the plan, start nothing"
    )


ExecutionPage: Final = page_of("ExecutionPage", executions=list[RunSummary], total=Count)
LogMatchPage: Final = page_of(
    "LogMatchPage", matches=list[LogMatch], total=Count, sources=dict[str, Count]
)
LaunchSuitePage: Final = page_of("LaunchSuitePage", suites=list[LaunchSuiteBody], total=Count)
