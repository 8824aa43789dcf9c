"""Request bodies of `/api/v1/sandboxes`; the responses are the documents of `domain`."""

from __future__ import annotations

from rest_framework import serializers

from apps.http.rest import StrictSerializer


class ReapInput(StrictSerializer):
    dryRun = serializers.BooleanField(
        required=False, default=False, help_text="count what would be removed, remove nothing"
    )


class ReapAllInput(ReapInput):
    onlyZombies = serializers.BooleanField(
        required=False, default=False, help_text="leave everything that still has its supervisor"
    )
