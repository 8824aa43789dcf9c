"""Bodies of the agent protocol (reference: control-plane 15.1): unknown keys are ignored here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.http.rest import StrictSerializer
from kernel import clock
from kernel.addresses import LOCAL_TOO, AddressError, read_base_url
from kernel.agent_protocol import (
    ARTIFACT_PATH_CHARACTERS,
    HINT_CHARACTERS,
    MISSING_ARTIFACTS,
    LogLine,
)
from kernel.errors import PlatformError
from worker.domain.control_plane import FAILING_LOOPS, LOOP_CHARACTERS

INT32: Final = 2**31 - 1
INT64: Final = 2**63 - 1
LINES_MAX: Final = 1000
CHUNK_BYTES: Final = 2**20
LINE_CHARACTERS: Final = 16 * 1024
LEVELS: Final = ("debug", "info", "warn", "error")
KINDS: Final = ("output", "system", "metric")
STATES: Final = ("waiting", "image-pull", "running", "healthy", "adopted")
OUTCOMES: Final = ("succeeded", "failed", "canceled")
WAIT_MAX_S: Final = 25
START_AHEAD_MAX: Final = 32
_MANY: Final = 10_000
_TEXT: Final = 64 * 1024
_AGENT_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_LOOP: Final = rf"^[A-Za-z0-9._-]{{1,{LOOP_CHARACTERS}}}$"
_JOB_ID: Final = r"^job_[A-Za-z0-9_-]{22}$"


class AgentSerializer(StrictSerializer):
    ignore_unknown = True


def _names(**more: Any) -> serializers.ListField:
    """Return a field for a list of backends or capabilities."""
    return serializers.ListField(
        child=serializers.RegexField(_AGENT_ID), max_length=100, required=False, **more
    )


class ActiveJobInput(AgentSerializer):
    jobId = serializers.RegexField(_JOB_ID)
    attempt = serializers.IntegerField(min_value=1, max_value=INT32)


class HostUrlField(serializers.CharField):
    """Where the control plane may call the worker; a name is resolved at each call, not here."""

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        try:
            return read_base_url(text, LOCAL_TOO)
        except AddressError as error:
            raise serializers.ValidationError(str(error), code="invalid_value") from None


class RegisterInput(AgentSerializer):
    agentId = serializers.RegexField(_AGENT_ID)
    name = serializers.CharField(max_length=300, required=False, allow_blank=True)
    hostUrl = HostUrlField(
        max_length=500,
        required=False,
        allow_blank=True,
        trim_whitespace=False,
        help_text="http(s), without user, query and fragment; never a link-local address",
    )
    capabilities = _names(help_text="step kinds; empty: all")
    backends = _names(help_text="default: the agentId")
    labels = serializers.DictField(
        child=serializers.CharField(max_length=300, allow_blank=True), required=False
    )
    version = serializers.CharField(max_length=64, required=False, allow_blank=True)
    incarnation = serializers.RegexField(
        r"^[\x21-\x7e]{1,64}$", required=False, help_text="new at each start of the worker"
    )
    activeJobs = serializers.ListField(child=ActiveJobInput(), max_length=_MANY, required=False)


class HeartbeatInput(AgentSerializer):
    runningJobs = serializers.IntegerField(min_value=0, max_value=INT32, required=False)
    runtimeAvailable = serializers.BooleanField(required=False, default=True)
    runs = serializers.ListField(
        child=serializers.RegexField(r"^[A-Za-z0-9-]{1,64}$"), max_length=_MANY, required=False
    )
    failingLoops = serializers.ListField(
        child=serializers.RegexField(_LOOP),
        max_length=FAILING_LOOPS,
        required=False,
        help_text="background loops of the worker that fail now; default: none",
    )


class ClaimInput(AgentSerializer):
    agentId = serializers.RegexField(_AGENT_ID)
    waitSeconds = serializers.IntegerField(
        min_value=0, max_value=WAIT_MAX_S, required=False, default=0
    )
    startAhead = serializers.IntegerField(
        min_value=0,
        max_value=START_AHEAD_MAX,
        required=False,
        default=0,
        help_text="how many steps that may come next the worker wants to hear of, as `ahead`",
    )


class UsageInput(AgentSerializer):
    cpuPercent = serializers.FloatField(min_value=0, required=False)
    memoryBytes = serializers.IntegerField(min_value=0, max_value=INT64, required=False)
    memoryPeakBytes = serializers.IntegerField(min_value=0, max_value=INT64, required=False)


class ProbeInput(AgentSerializer):
    """Of a service that is not ready; workers of older releases leave it out."""

    answer = serializers.CharField(
        max_length=_TEXT,
        allow_blank=True,
        help_text="what the probe answered last, masked; 200 characters of it are kept",
    )
    tries = serializers.IntegerField(min_value=0, max_value=INT32)
    timeLeftMs = serializers.IntegerField(
        min_value=0, max_value=INT32, help_text="until the service fails as `not_ready`"
    )


class JobInput(AgentSerializer):
    agentId = serializers.RegexField(_AGENT_ID)
    attempt = serializers.IntegerField(min_value=1, max_value=INT32)


class LeaseInput(JobInput):
    usage = UsageInput(required=False)
    probe = ProbeInput(required=False)


class StateInput(JobInput):
    state = serializers.ChoiceField(choices=STATES, help_text="`healthy` only for services")
    message = serializers.CharField(max_length=_TEXT, required=False, allow_blank=True)
    detail = serializers.CharField(max_length=_TEXT, required=False, allow_blank=True)


class LineInput(AgentSerializer):
    """For the OpenAPI only: `LinesField` reads the lines."""

    time = serializers.DateTimeField(required=False, help_text="default: now")
    level = serializers.ChoiceField(choices=LEVELS, required=False, default="info")
    kind = serializers.ChoiceField(choices=KINDS, required=False, default="output")
    text = serializers.CharField(max_length=LINE_CHARACTERS, allow_blank=True)
    continued = serializers.BooleanField(required=False, default=False)


@extend_schema_field(LineInput(many=True))
class LinesField(serializers.Field[Any, Any, Any, Any]):
    """A thousand lines a request: read by hand, a serializer a line takes a tenth of a second."""

    def to_internal_value(self, data: Any) -> tuple[LogLine, ...]:
        if not isinstance(data, list):
            raise serializers.ValidationError("must be an array", code="wrong_type")
        if len(data) > LINES_MAX:
            raise serializers.ValidationError(f"has more than {LINES_MAX} lines")
        now = clock.now()
        lines = tuple(_line(index, entry, now) for index, entry in enumerate(data))
        if sum(len(line.text.encode()) for line in lines) > CHUNK_BYTES:
            raise PlatformError(
                f"the lines have more than {CHUNK_BYTES} bytes", code="payload_too_large"
            )
        return lines


class LogsInput(JobInput):
    seq = serializers.IntegerField(min_value=0, max_value=INT32)
    position = serializers.IntegerField(min_value=0, max_value=INT64, required=False, default=0)
    lines = LinesField()


class MissingArtifactInput(AgentSerializer):
    path = serializers.CharField(max_length=ARTIFACT_PATH_CHARACTERS)
    hint = serializers.CharField(max_length=HINT_CHARACTERS, required=False, allow_blank=True)


class CompleteInput(JobInput):
    status = serializers.ChoiceField(choices=OUTCOMES, required=False)
    error = serializers.CharField(max_length=_TEXT, required=False, allow_blank=True)
    reason = serializers.CharField(max_length=128, required=False, allow_blank=True)
    exitCode = serializers.IntegerField(min_value=-INT32, max_value=INT32, required=False)
    finalSeq = serializers.IntegerField(min_value=0, max_value=INT32, required=False)
    usage = UsageInput(required=False)
    missingArtifacts = serializers.ListField(
        child=MissingArtifactInput(), max_length=MISSING_ARTIFACTS, required=False
    )


class _Fault(Exception):
    def __init__(self, key: str, code: str, detail: str) -> None:
        super().__init__(detail)
        self.key, self.code, self.detail = key, code, detail


def _line(index: int, entry: Any, now: datetime) -> LogLine:
    try:
        return _read_line(entry, now)
    except _Fault as fault:
        told = [serializers.ErrorDetail(fault.detail, code=fault.code)]
        where: Any = {fault.key: told} if fault.key else told
        raise serializers.ValidationError({str(index): where}) from None


def _read_line(entry: Any, now: datetime) -> LogLine:
    if not isinstance(entry, dict):
        raise _Fault("", "wrong_type", "must be an object")
    if "text" not in entry:
        raise _Fault("text", "required", "is required")
    text = _text(entry, "text", "")
    if len(text) > LINE_CHARACTERS:
        raise _Fault("text", "invalid_value", f"has more than {LINE_CHARACTERS} characters")
    continued = entry.get("continued", False)
    if not isinstance(continued, bool):
        raise _Fault("continued", "wrong_type", "must be true or false")
    return LogLine(
        time=_time(entry, now),
        level=_one_of(entry, "level", LEVELS, "info"),
        kind=_one_of(entry, "kind", KINDS, "output"),
        text=text,
        continued=continued,
    )


def _text(entry: Mapping[str, Any], key: str, default: str) -> str:
    value = entry.get(key, default)
    if not isinstance(value, str):
        raise _Fault(key, "wrong_type", "must be a string")
    return value


def _one_of(entry: Mapping[str, Any], key: str, options: tuple[str, ...], default: str) -> str:
    value = _text(entry, key, default)
    if value not in options:
        raise _Fault(key, "invalid_value", f"must be one of {', '.join(options)}")
    return value


def _time(entry: Mapping[str, Any], now: datetime) -> datetime:
    if "time" not in entry:
        return now
    try:
        return clock.parse_rfc3339(_text(entry, "time", ""))
    except ValueError:
        raise _Fault("time", "invalid_value", "must be a time such as 2026-01-02T03:04:05Z") from (
            None
        )
