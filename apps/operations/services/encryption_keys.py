"""Which key encrypts what, and its replacement by the current key.

Safe beside running processes: a row is written only if it still holds what was read. To begin again
after an interruption goes on where it stopped, because what the current key encrypts is left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from apps.operations import conf
from apps.operations.domain.encrypted_rows import EncryptedRow, EncryptedRows, encrypted_rows
from kernel.encryption import decrypt, encrypt, fingerprint, fitting_key
from kernel.errors import PlatformError

_PASSES: Final = 5  # rows that others change meanwhile are read again


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUse:
    """A key, the variable that it comes from, and how many texts of each kind it encrypts."""

    fingerprint: str
    origin: str
    is_current: bool
    texts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReport:
    """The keys in order, and where stands what none of them decrypts, by kind."""

    keys: tuple[KeyUse, ...]
    unreadable: Mapping[str, tuple[str, ...]]


@dataclass(slots=True, kw_only=True)
class Reencryption:
    """The outcome for one kind. `failures`: place and reason."""

    kind: str
    current: int = 0  # texts that the current key encrypts already
    replaced: int = 0  # texts; with `dry_run`, those that would be
    unreadable: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return not (self.unreadable or self.failures)


def report_keys() -> KeyReport:
    """Read every encrypted text and return which key encrypts it."""
    origins = conf.encryption_key_origins()
    keys = list(origins)
    counts: dict[str, Counter[str]] = {key: Counter() for key in keys}
    unreadable: dict[str, tuple[str, ...]] = {}
    for kind in encrypted_rows:
        lost = []
        for text in (text for row in encrypted_rows[kind].rows() for text in row.texts):
            if key := fitting_key(text.ciphertext, keys):
                counts[key][kind] += 1
            else:
                lost.append(text.place)
        unreadable[kind] = tuple(lost)
    return KeyReport(
        keys=tuple(
            KeyUse(
                fingerprint=fingerprint(key),
                origin=origin,
                is_current=number == 0,
                texts={kind: counts[key][kind] for kind in encrypted_rows},
            )
            for number, (key, origin) in enumerate(origins.items())
        ),
        unreadable=unreadable,
    )


def reencrypt(
    *, dry_run: bool, on_row: Callable[[Reencryption], None] = lambda _outcome: None
) -> Iterator[Reencryption]:
    """Encrypt everything with the current key; yield the outcome of each kind.

    `on_row` takes the outcome so far after each row. Raise PlatformError without a key.
    """
    if not conf.encryption_key_origins():
        raise PlatformError("no encryption key: set JWT_SECRET or SETTINGS_ENCRYPTION_KEY")
    for kind in encrypted_rows:
        outcome = Reencryption(kind=kind)
        rows = encrypted_rows[kind]
        changed: set[str] | None = None  # None: every row
        for _pass in range(_PASSES):
            changed = _reencrypt_rows(rows, outcome, changed, dry_run=dry_run, on_row=on_row)
            if not changed:
                break
        left = sorted(changed or ())
        outcome.failures += [(row_id, "changed at each attempt") for row_id in left]
        yield outcome


def _reencrypt_rows(
    rows: EncryptedRows,
    outcome: Reencryption,
    only: set[str] | None,
    *,
    dry_run: bool,
    on_row: Callable[[Reencryption], None],
) -> set[str]:
    """Return the rows that others have changed between read and write."""
    changed = set()
    for row in rows.rows():
        if only is not None and row.row_id not in only:
            continue
        texts = _new_texts(row)
        try:
            is_written = dry_run or not texts or rows.replace(row.row_id, texts)
        except OSError as error:
            outcome.failures.append((row.texts[0].place, error.strerror or str(error)))
            continue
        if not is_written:
            changed.add(row.row_id)
            continue
        _count(outcome, row, texts)
        on_row(outcome)
    return changed


def _new_texts(row: EncryptedRow) -> dict[str, str]:
    """Return old to new ciphertexts, without those that are current or that no key decrypts."""
    keys = list(conf.encryption_key_origins())
    found = {}
    for text in row.texts:
        key = fitting_key(text.ciphertext, keys)
        if key is not None and key != keys[0]:
            found[text.ciphertext] = encrypt(decrypt(text.ciphertext, [key]), keys)
    return found


def _count(outcome: Reencryption, row: EncryptedRow, texts: Mapping[str, str]) -> None:
    keys = list(conf.encryption_key_origins())
    for text in row.texts:
        if text.ciphertext in texts:
            outcome.replaced += 1
        elif fitting_key(text.ciphertext, keys):
            outcome.current += 1
        else:
            outcome.unreadable.append(text.place)
