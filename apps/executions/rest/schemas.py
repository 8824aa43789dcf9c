"""Request bodies, and the responses for the OpenAPI; selectors create the responses themselves.

An optional key of a response is absent, never null (reference: control-plane 11.1).
"""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from apps.executions.domain.attempts import AttemptBody
from apps.executions.domain.kept_environments import KeepBody
from apps.executions.domain.rerun import RerunScope
from apps.executions.domain.runs import MAX_GROUP_LENGTH, ConcurrencyBody
from apps.executions.domain.states import ExecutionStatus, StepReason, StepStatus
from apps.executions.domain.verdict import RunVerdict
from apps.executions.selectors.logs import KINDS, LEVELS
from apps.executions.selectors.queue_place import QueueBody
from apps.http.rest import DocumentField, StrictSerializer
from apps.profiles.api import KEEP_MAX_MS

_NAME_LENGTH: Final = 300
_TEXT_LENGTH: Final = 10_000
Text = serializers.CharField
Number = serializers.IntegerField
Flag = serializers.BooleanField
Instant = serializers.DateTimeField
Texts = serializers.ListField
TRIGGERS = ["Manual", "CI", "API", "Rerun"]
RUN_STATUSES = [status.value for status in ExecutionStatus]
STEP_STATUSES = [status.value for status in StepStatus]


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


class Shape(serializers.Serializer[Any]):
    """The shape of a response."""


class Summary(Shape):
    id = Text()
    suiteId = Text()
    suiteTitle = Text()
    profile = Text(help_text="file name, empty when the suite has none")
    backendId = Text()
    backend = Text(help_text="label")
    backendKind = serializers.ChoiceField(choices=["local", "kubernetes", "remote-agent"])
    trigger = serializers.ChoiceField(choices=TRIGGERS)
    author = Text(help_text="as given, otherwise the full name of who launched it")
    status = serializers.ChoiceField(choices=RUN_STATUSES)
    failing = Flag()
    sentence = Text(help_text="why the run is as it is, in words")
    reason = Text(required=False)
    reasonDetail = Text(required=False)
    duration = Text(help_text="MM:SS")
    durationMs = Number(min_value=0)
    startedAt = Instant(help_text="when it was accepted")
    bootedAt = Instant(required=False)
    finishedAt = Instant(required=False)
    queuePosition = Number(required=False, min_value=1)
    concurrency = DocumentField(ConcurrencyBody, required=False)
    rerunOf = Text(required=False)
    attempt = Number(required=False, min_value=2, help_text="of a rerun, among all of its run")
    workspaceId = serializers.UUIDField()


@extend_schema_serializer(many=False)
class ExecutionList(Shape):
    executions = Summary(many=True)
    total = Number(min_value=0)
    nextCursor = Text(required=False)


class Cause(Shape):
    stepId = Text()
    reason = Text()
    exitCode = Number(required=False)


class Usage(Shape):
    cpuPercent = serializers.FloatField(required=False)
    memoryBytes = Number(required=False)
    memoryPeakBytes = Number(required=False)


class ProbeShape(Shape):
    """What the probe of a service that is not ready answered last."""

    answer = Text(max_length=200, help_text="masked like log lines")
    tries = Number(min_value=0)
    deadline = Instant(help_text="when the service fails as `not_ready`")


class StepShape(Shape):
    id = Text()
    name = Text()
    kind = Text()
    variant = Text()
    level = Number(min_value=0)
    dependsOn = Texts(child=Text())
    onFailure = Texts(child=Text())
    continueOnFailure = Flag()
    status = serializers.ChoiceField(choices=STEP_STATUSES)
    attempt = Number(min_value=0)
    waitingOn = Texts(child=Text())
    reason = serializers.ChoiceField(
        choices=[reason.value for reason in StepReason], required=False
    )
    detail = Text(required=False)
    cause = Cause(many=True, required=False)
    exitCode = Number(required=False)
    agentId = Text(required=False)
    queuedAt = Instant(required=False)
    startedAt = Instant(required=False)
    finishedAt = Instant(required=False)
    duration = Text(help_text="MM:SS")
    durationMs = Number(required=False, min_value=0)
    usage = Usage(required=False)
    missingArtifacts = serializers.ListField(
        child=serializers.DictField(child=Text()),
        required=False,
        help_text="declared artifacts that the last attempt did not leave: `path`, and `hint` "
        "if it is known where such a file is or why it was not taken",
    )
    probe = ProbeShape(required=False)
    waitsFor = Text(
        required=False,
        help_text="what keeps its container from the start, in the words of the cluster",
    )


class EventShape(Shape):
    id = Text()
    source = Text(help_text="step id, or `execution`")  # type: ignore[assignment]  # a field, not the attribute
    timestamp = Text(help_text="MM:SS")
    time = Instant()
    text = Text()
    status = serializers.ChoiceField(choices=STEP_STATUSES)
    level = serializers.ChoiceField(choices=["info", "warn", "error"])
    reason = Text(required=False)
    attempt = Number(required=False, min_value=0)


class LineShape(Shape):
    source = Text()  # type: ignore[assignment]  # a field, not the attribute
    timestamp = Text(help_text="MM:SS")
    time = Instant()
    level = serializers.ChoiceField(choices=LEVELS)
    kind = serializers.ChoiceField(choices=KINDS)
    text = Text()
    attempt = Number(required=False, min_value=0)
    continued = Flag(required=False)


class TestSummary(Shape):
    total = Number()
    passed = Number()
    failures = Number()
    errors = Number()  # type: ignore[assignment]  # a field, not the attribute
    skipped = Number()
    durationSeconds = serializers.FloatField(required=False)


class ArtifactShape(Shape):
    id = Text()
    stepId = Text()
    stepName = Text()
    path = Text()
    name = Text(required=False)
    on = serializers.ChoiceField(choices=["success", "failure", "always"])
    format = serializers.ChoiceField(choices=["raw", "junit", "cobertura", "ctrf"])
    attempt = Number(min_value=1)
    size = Number(min_value=0)
    sha256 = Text()
    mediaType = Text()
    href = Text()
    createdAt = Instant()
    content = Text(required=False, help_text="the first 64 KiB of a UTF-8 text")
    truncated = Flag(required=False)
    imageType = Text(required=False, help_text="of an image, by its bytes: PNG, JPEG, GIF or WebP")
    expiredAt = Instant(required=False, help_text="when its bytes were removed")
    testSummary = TestSummary(required=False)


class SuiteShape(Shape):
    """The definition at the time of the launch; its parts are those of `GET /suites/{suiteId}`."""

    id = Text()
    title = Text()
    repository = Text()
    suiteStar = Text()
    profiles = Texts(child=serializers.DictField())
    folders = Texts(child=serializers.DictField())
    sourceFiles = Texts(child=serializers.DictField())
    topology = Texts(child=serializers.DictField())
    resolvedDependencies = Texts(child=serializers.DictField())
    apiSurfaces = Texts(child=serializers.DictField())


class Detail(Summary):
    updatedAt = Instant()
    suite = SuiteShape(required=False)
    commit = Text()
    branch = Text()
    message = Text()
    cancelReason = Text(required=False)
    keepAliveUntil = Instant(required=False)
    keep = DocumentField(KeepBody, required=False)
    verdict = DocumentField(RunVerdict, required=False)
    steps = StepShape(many=True, required=False)
    events = EventShape(many=True, required=False)
    artifacts = ArtifactShape(many=True, required=False)
    attempts = serializers.ListField(
        child=DocumentField(AttemptBody),
        required=False,
        help_text="the run and its reruns in order; an entry with `gap` has no run",
    )
    lastEventId = Number(min_value=0)
    lastLogId = Number(min_value=0)
    queue = DocumentField(QueueBody, required=False)


class Match(Shape):
    id = Number(min_value=1)
    line = LineShape()
    found = Text()


class LogMatches(Shape):
    matches = Match(many=True)
    total = Number(min_value=0)
    sources = serializers.DictField(child=Number(min_value=0))
    nextCursor = Text(required=False)


class ProfileOption(Shape):
    fileName = Text()
    label = Text()  # type: ignore[assignment]  # a field, not the attribute
    description = Text()
    default = Flag()


class BackendOption(Shape):
    id = Text()
    label = Text()  # type: ignore[assignment]  # a field, not the attribute
    kind = Text()
    description = Text()
    default = Flag()
    available = Flag()
    waitsFor = Text()


class ReferencedSuite(Shape):
    """The suite that a reference names; the default profile is the first."""

    id = Text()
    title = Text()
    repository = Text()
    version = Text()
    profiles = ProfileOption(many=True)


class LaunchSuite(Shape):
    id = Text()
    title = Text()
    repository = Text()
    description = Text()
    provider = Text()
    status = Text()
    profiles = ProfileOption(many=True)
    backends = BackendOption(many=True)


class LaunchSuites(Shape):
    suites = LaunchSuite(many=True)
    total = Number(min_value=0)
    nextCursor = Text(required=False)


class StepCounts(Shape):
    pendingSteps = Number()
    queuedSteps = Number()
    runningSteps = Number()
    healthySteps = Number()
    failedSteps = Number()
    skippedSteps = Number()
    canceledSteps = Number()


class OverviewStep(Shape):
    id = Text()
    name = Text()
    kind = Text()
    status = serializers.ChoiceField(choices=STEP_STATUSES)
    level = Number()
    dependsOn = Texts(child=Text())


class OverviewItem(Summary, StepCounts):
    updatedAt = Instant()
    progressRatio = serializers.FloatField(min_value=0, max_value=1)
    steps = OverviewStep(many=True, required=False)


class OverviewCounts(StepCounts):
    totalExecutions = Number()
    queuedExecutions = Number()
    bootingExecutions = Number()
    healthyExecutions = Number()
    failedExecutions = Number()
    canceledExecutions = Number()
    totalSteps = Number()


class Overview(Shape):
    updatedAt = Instant()
    summary = OverviewCounts()
    executions = OverviewItem(many=True)
