"""Request bodies of `/api/v1/executions` (reference: control-plane 11.1)."""

from __future__ import annotations

from rest_framework import serializers

from apps.system.rest import StrictSerializer

KEEP_ALIVE_MAX_MS = 14_400_000
_NAME_LENGTH = 300
_TEXT_LENGTH = 10_000


class LaunchInput(StrictSerializer):
    suiteId = serializers.CharField(
        max_length=500, help_text="id of a suite, or a repository reference"
    )
    profile = serializers.CharField(
        max_length=256,
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="file name or id",
    )
    backend = serializers.CharField(
        max_length=128,
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="id; empty or `auto`: the default if available, else the first that is",
    )
    keepAliveMs = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=KEEP_ALIVE_MAX_MS, default=0
    )
    trigger = serializers.ChoiceField(
        choices=["Manual", "CI", "API"], required=False, allow_null=True, default="Manual"
    )
    author = serializers.CharField(
        max_length=_NAME_LENGTH, required=False, allow_null=True, allow_blank=True
    )
    commit = serializers.CharField(
        max_length=_NAME_LENGTH, required=False, allow_null=True, allow_blank=True
    )
    branch = serializers.CharField(
        max_length=_NAME_LENGTH, required=False, allow_null=True, allow_blank=True
    )
    message = serializers.CharField(
        max_length=_TEXT_LENGTH, required=False, allow_null=True, allow_blank=True
    )


class CancelInput(StrictSerializer):
    reason = serializers.CharField(
        max_length=_TEXT_LENGTH, required=False, allow_null=True, allow_blank=True
    )


class RerunInput(StrictSerializer):
    scope = serializers.ChoiceField(
        choices=["all", "failed"], required=False, allow_null=True, default="all"
    )
