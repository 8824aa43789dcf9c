"""A settings file as the body of a request, so that faults have their line and column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any, ClassVar, Final

from rest_framework.parsers import BaseParser

from apps.http.rest import StrictAPIView
from apps.platform_settings import api
from apps.platform_settings.domain.replacement import MAX_BYTES

BODY: Final = "body"  # what faults call the file, whose name the server does not know


class SettingsFileParser(BaseParser):
    """Parses YAML, and so JSON, as a settings file is read; a mask stands for a stored secret."""

    media_type = "application/yaml"
    # older names: those that RFC 9512 deprecates, and one that was never registered
    aliases: ClassVar = frozenset(
        {"application/x-yaml", "text/yaml", "text/x-yaml", "text/vnd.yaml"}
    )

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        return api.settings_in_file(BODY, stream.read(MAX_BYTES + 1))


PARSERS: Final = [*StrictAPIView.parser_classes, SettingsFileParser]
