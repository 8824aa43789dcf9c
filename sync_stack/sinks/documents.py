"""Records as bytes, and back to the canonical form.

(reference: sync-stack 5)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sync_stack.core.bundle.datasources import (
    Datasource,
    OutputShape,
    OutputTypes,
    UpdateStrategy,
)
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.formats import by_name, formats, render
from sync_stack.core.shaping.leaves import flat_values
from sync_stack.core.sink import Put, SinkError

TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a datasource stores records: a key each (`one_key`), or many as a document."""

    one_key: bool = False
    nested: bool = False
    native: bool = False

    @classmethod
    def of(cls, datasource: Datasource) -> Style:
        return cls(
            one_key=datasource.update_strategy is UpdateStrategy.KEY_VALUE,
            nested=datasource.output_shape is OutputShape.NESTED,
            native=datasource.output_types is OutputTypes.NATIVE,
        )

    def body(self, put: Put, file_format: str, *, max_bytes: int = 0) -> bytes:
        """Return a record's bytes. Raises SinkError: key_invalid, destination_too_large."""
        if self.one_key:
            (value,) = put.values.values()
            return bytes_of(value)
        body = document(put.values, file_format, self)
        if max_bytes and len(body) > max_bytes:
            detail = f"{put.record!r} is larger than {max_bytes} bytes"
            raise SinkError("destination_too_large", detail)
        return body

    def values(self, key: str, body: bytes, file_format: str) -> dict[str, str]:
        """Return what a record holds; `key` is that of a record with one."""
        return {key: text_of(body)} if self.one_key else values_of(body, file_format)


def document(values: Mapping[str, str], file_format: str, style: Style) -> bytes:
    """Return the document: sorted, UTF-8, with a final newline; raise SinkError(key_invalid)."""
    try:
        body = render(values, file_format, nested=style.nested, native=style.native)
    except ShapingError as error:
        raise SinkError("key_invalid", error.detail) from None
    return body if body.endswith(b"\n") else body + b"\n"


def values_of(body: bytes, file_format: str) -> dict[str, str]:
    """Flat key → text. What cannot be read holds no key: somebody has broken it, which is drift."""
    try:
        tree = formats[file_format].parse(body, file="")
        return dict(flat_values(tree))
    except ShapingError:
        return {}


def text_of(body: bytes) -> str:
    """A value as text; bytes that are no UTF-8 come back unchanged from `bytes_of`."""
    return body.decode("utf-8", errors="surrogateescape")


def bytes_of(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")


def writable_format(name: str) -> str:
    """The format that a file name stands for; "" when it has none that can be written."""
    found = by_name(name)
    return found.name if found and found.render else ""
