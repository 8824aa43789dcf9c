"""What the sinks share: the layout of a datasource, and the formats and bytes of its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from sync_stack.core.bundle.datasources import Datasource, DatasourceOptions, UpdateStrategy
from sync_stack.core.sink import Capabilities, Put
from sync_stack.sinks.documents import Style, writable_format
from sync_stack.sinks.limits import Timeouts

Options = TypeVar("Options", bound=DatasourceOptions)


class BaseSink(Generic[Options]):
    """Reads the datasource; a sink adds what it can do to `capabilities`."""

    _fixed_format = ""  # of every document, where not the record's name says it

    def __init__(self, datasource: Datasource, options: Options) -> None:
        self._options = options
        self._layout = datasource.update_strategy
        self._style = Style.of(datasource)
        self._timeouts = Timeouts.of(datasource)
        self.capabilities = Capabilities(whole_records=not self._by_key, file_records=self._by_file)

    @property
    def _by_key(self) -> bool:
        return self._layout is UpdateStrategy.KEY_VALUE

    @property
    def _by_file(self) -> bool:
        return self._layout is UpdateStrategy.FILE

    @property
    def _is_document(self) -> bool:
        return self._layout is UpdateStrategy.DOCUMENT

    def _format(self, record: str) -> str:
        """Return the format of a record's document; "" for a record of one key."""
        if self._style.one_key:
            return ""
        return self._fixed_format or writable_format(record) or "json"

    def _bodies(self, puts: Sequence[Put], *, max_bytes: int = 0) -> dict[str, bytes]:
        """Return record → bytes. Raises SinkError: key_invalid, destination_too_large."""
        return {
            put.record: self._style.body(put, self._format(put.record), max_bytes=max_bytes)
            for put in puts
        }

    def _values(self, record: str, key: str, body: bytes) -> dict[str, str]:
        """Return key → text of a record as found; `key` is that of a record with one."""
        return self._style.values(key, body, self._format(record))
