"""What the store and files hold encrypted: the apps say where, so that a key can be replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from kernel.registry import Registry


@dataclass(frozen=True, slots=True)
class EncryptedText:
    """A ciphertext of `kernel.encryption`, and where it stands, in words for an administrator."""

    place: str
    ciphertext: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class EncryptedRow:
    """A row or file whose ciphertexts are replaced together."""

    row_id: str
    texts: tuple[EncryptedText, ...]


class EncryptedRows(Protocol):
    """The rows of one kind. Apps name theirs by path, as `encrypted_rows` in `apps.py`."""

    def rows(self) -> Iterator[EncryptedRow]:
        """Yield every row that holds a ciphertext; rows may be replaced meanwhile."""
        ...

    def replace(self, row_id: str, texts: Mapping[str, str]) -> bool:
        """Replace ciphertexts, old to new, in a row that still holds the old ones.

        Return False, and change nothing, when the row has changed or is gone; raise OSError.
        """
        ...


encrypted_rows: Final[Registry[EncryptedRows]] = Registry("kind of encrypted rows")
