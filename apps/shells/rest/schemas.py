"""Request bodies of `/api/v1/executions/{id}/shells`; the responses are those of `domain`."""

from __future__ import annotations

from typing import Final

from rest_framework import serializers

from apps.http.rest import StrictSerializer

_MOST_WORDS: Final = 64
_MOST_CHARACTERS: Final = 4096
_LARGEST: Final = 1000


class OpenShellInput(StrictSerializer):
    stepId = serializers.CharField(max_length=300)
    command = serializers.ListField(
        child=serializers.CharField(
            max_length=_MOST_CHARACTERS, allow_blank=True, trim_whitespace=False
        ),
        required=False,
        max_length=_MOST_WORDS,
        help_text="program and arguments; an interactive shell when left out",
    )
    columns = serializers.IntegerField(
        required=False, default=80, min_value=1, max_value=_LARGEST, help_text="of the terminal"
    )
    rows = serializers.IntegerField(
        required=False, default=24, min_value=1, max_value=_LARGEST, help_text="of the terminal"
    )
