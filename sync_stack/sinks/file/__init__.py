"""Files: one, one for each key, or one for each source file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sync_stack.core.bundle.datasources import (
    DatasourceKind,
    DatasourceOptions,
    KeyCase,
    UpdateStrategy,
    datasource_kinds,
)
from sync_stack.core.bundle.fields import ParsedFields, option
from sync_stack.core.bundle.rules import KeyFormat
from sync_stack.core.bundle.values import FLAG, choice, choice_of, parsed_text, text
from sync_stack.core.formats import writable_formats


def _file_mode(written: str) -> int:
    """Return the value of octal digits; raise ValueError."""
    if not 3 <= len(written) <= 4 or set(written) - set("01234567"):  # noqa: PLR2004 - rwx, with a 0
        raise ValueError(f'"{written[:20]}" is not a file mode such as "0640"')
    return int(written, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions(DatasourceOptions):
    """`format` empty: from the destination's suffix, else json."""

    root: str = option(
        text("an absolute directory", r"/[^\0]*"),
        description="Absolute directory; made with mode 0750",
        aliases="path base_directory base_path",
    )
    format: str = option(
        choice_of(writable_formats, "FORMAT_"), "", shown="from the destination's suffix, else json"
    )
    env_as_dir: bool = option(FLAG, False, "`<env>/config.<ext>`")
    env_as_filename: bool = option(FLAG, True, "`config-<env>.<ext>`")
    file_mode: int = option(parsed_text("file mode", _file_mode), 0o640, shown='"0640"')
    key_case: KeyCase = option(choice(KeyCase, "KEY_CASE_"), KeyCase.KEEP)

    @classmethod
    def check(cls, parsed: ParsedFields) -> None:
        if ".." in parsed.get("root", "").split("/"):
            parsed.at("root").error("out_of_range", 'a root holds no ".."')


FILE: Final = datasource_kinds.register("file")(
    DatasourceKind(
        name="file",
        options=FileOptions,
        sink="sync_stack.sinks.file.sink:FileSink",
        default_strategy=UpdateStrategy.DOCUMENT,
        key_formats=(KeyFormat.DOT, KeyFormat.FLAT),
        records={
            UpdateStrategy.KEY_VALUE: "one file per key",
            UpdateStrategy.DOCUMENT: "one file",
            UpdateStrategy.FILE: "one file per source file",
        },
    )
)
