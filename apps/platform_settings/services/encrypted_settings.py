"""The encrypted secrets of the stored settings and of configuration.yaml, whose key is replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from apps.operations.api import EncryptedRow, EncryptedText
from apps.platform_settings import conf
from apps.platform_settings.domain.keys import ENCRYPTED
from apps.platform_settings.domain.wire import map_secrets, secret_texts
from apps.platform_settings.models import PlatformSettings
from apps.platform_settings.selectors import stored_settings
from apps.platform_settings.services.file_writer import replace_in_file
from kernel.ids import new_uuid

_IN_TEXT: Final = re.compile(re.escape(ENCRYPTED) + r"([A-Za-z0-9_=-]+)")


class StoredSecrets:
    """Those of the stored document: one row."""

    def rows(self) -> Iterator[EncryptedRow]:
        if (row := stored_settings()) is None:
            return
        found = [each for each in secret_texts(row.document) if each.text.startswith(ENCRYPTED)]
        if found:
            texts = [EncryptedText(one.identity, one.text.removeprefix(ENCRYPTED)) for one in found]
            yield EncryptedRow(str(row.pk), tuple(texts))

    def replace(self, _row_id: str, texts: Mapping[str, str]) -> bool:
        """Store a document that means the same; a revision never stands for two documents."""
        row = stored_settings()
        if row is None:
            return False
        new = {ENCRYPTED + old: ENCRYPTED + text for old, text in texts.items()}
        document = map_secrets(row.document, lambda text: new.get(text, text))
        rows = PlatformSettings.objects.at_revision_of(row)
        return bool(rows.update(document=document, revision=new_uuid()))


class SecretsInFile:
    """Those of configuration.yaml on this host, where there is one."""

    def rows(self) -> Iterator[EncryptedRow]:
        file = conf.settings_file()
        path, content = file.path, file.content() or b""
        found = _IN_TEXT.findall(content.decode(errors="replace"))
        if found:
            yield EncryptedRow(str(path), tuple(EncryptedText(path.name, each) for each in found))

    def replace(self, _row_id: str, texts: Mapping[str, str]) -> bool:
        return replace_in_file(
            lambda text: _IN_TEXT.sub(lambda one: ENCRYPTED + texts.get(one[1], one[1]), text)
        )


STORED: Final = StoredSecrets()
IN_FILE: Final = SecretsInFile()
