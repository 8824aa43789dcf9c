"""What the agent routes answer, for the OpenAPI; the views make the bodies."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter, extend_schema_serializer
from rest_framework import serializers

_CANCEL_REASONS: Final = ["canceled", "teardown", "detach", "timeout"]


class Shape(serializers.Serializer[Any]):
    """Describes an answer; never reads one."""


def _texts(**more: Any) -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(), **more)


class AgentRegistration(Shape):
    agentId = serializers.CharField()
    name = serializers.CharField()
    hostUrl = serializers.CharField(required=False)
    status = serializers.ChoiceField(choices=["online", "offline"])
    capabilities = _texts()
    backends = _texts()
    labels = serializers.DictField(child=serializers.CharField(allow_blank=True))
    version = serializers.CharField(required=False)
    registeredAt = serializers.DateTimeField()
    lastHeartbeatAt = serializers.DateTimeField()
    offlineSince = serializers.DateTimeField(
        required=False, help_text="of who is offline: when it was last heard of"
    )
    runningJobs = serializers.IntegerField(help_text="0 of who is offline")
    draining = serializers.BooleanField(
        required=False, help_text="true while an administrator drains it: it takes no new runs"
    )
    failingLoops = _texts(
        required=False,
        help_text="background loops of its process that fail; absent when none does, or offline",
    )


@extend_schema_serializer(many=False)
class AgentList(Shape):
    agents = AgentRegistration(many=True)
    nextCursor = serializers.CharField(required=False)


class KeptJob(Shape):
    jobId = serializers.CharField()
    attempt = serializers.IntegerField()
    nextSeq = serializers.IntegerField()
    position = serializers.IntegerField()


class Registered(AgentRegistration):
    agentToken = serializers.CharField(help_text="shown this once")
    installationId = serializers.CharField(help_text="what the label partita.installation says")
    heartbeatIntervalMs = serializers.IntegerField()
    leaseMs = serializers.IntegerField()
    leaseGraceMs = serializers.IntegerField(
        help_text="how long a lease that ended may still be renewed before it is lost"
    )
    keepJobs = KeptJob(many=True)
    dropJobs = _texts()


class Heard(AgentRegistration):
    releaseRuns = _texts()


class Removed(Shape):
    status = serializers.CharField(help_text="`removed`")


class StepSpec(Shape):
    """Further keys follow (reference: control-plane 13.1)."""

    jobId = serializers.CharField()
    attempt = serializers.IntegerField()
    executionId = serializers.CharField()
    leaseMs = serializers.IntegerField()
    timeoutMs = serializers.IntegerField()
    env = serializers.DictField(child=serializers.CharField(allow_blank=True))
    secretKeys = _texts()
    node = serializers.DictField()
    ahead = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text="specs of steps that may come next; none may run before it is claimed",
    )


class LeaseAnswer(Shape):
    status = serializers.CharField(help_text="`running`")
    cancelRequested = serializers.BooleanField()
    cancelReason = serializers.ChoiceField(choices=_CANCEL_REASONS, required=False)
    leaseMs = serializers.IntegerField()
    leaseExpiresAt = serializers.DateTimeField()
    leaseGraceMs = serializers.IntegerField(
        help_text="how long after its end the lease can still be renewed, as things are now"
    )


class StateAnswer(Shape):
    status = serializers.CharField(help_text="`recorded`")
    cancelRequested = serializers.BooleanField(required=False)
    cancelReason = serializers.ChoiceField(choices=_CANCEL_REASONS, required=False)


class LogsAnswer(StateAnswer):
    nextSeq = serializers.IntegerField()


class ArtifactAnswer(Shape):
    artifactId = serializers.CharField()


class CompleteAnswer(Shape):
    status = serializers.CharField(help_text="`completed`")


def query(name: str, type_: Any = str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, type_, OpenApiParameter.QUERY, **more)


WHOLE: Final = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
