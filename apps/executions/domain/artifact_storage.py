"""The port to what keeps the bytes of artifacts: the store, a folder, a bucket. Pure.

(reference: control-plane 11.11)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from kernel.errors import PlatformError

CHUNK_BYTES: Final = 64 * 2**10
# installation/run/random; disks write beside it first
_NAME: Final = re.compile(r"[0-9a-f-]{36}/[a-z0-9-]{1,16}/[0-9a-f]{32}(\.part)?")


class StorageUnavailable(PlatformError):
    """The storage does not answer, or refuses; `reason` names no address and no credential."""

    code = "artifact_unavailable"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the storage of artifacts is unavailable: {reason}")
        self.reason = reason


class StorageUnreachable(StorageUnavailable):
    """The storage does not answer: whoever asks again may wait as long again."""


class StorageMisconfigured(StorageUnavailable):
    """The storage answers, and somebody has to mend it: there is no such bucket or folder."""


class ArtifactLost(PlatformError):
    """The storage answers and does not have the bytes, or has others."""

    code = "artifact_lost"

    def __init__(self, detail: str = "the file is gone from the storage of artifacts") -> None:
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object in a storage, and when it was last written, by the clock of the storage."""

    name: str
    modified_at: datetime


class ArtifactStorage(Protocol):
    """Keeps bytes under names; any thread may use it. All raise StorageUnavailable."""

    def write(self, name: str, body: bytes) -> None:
        """Write an object, which nobody sees before it is whole."""

    def read(self, name: str) -> Iterator[bytes]:
        """Yield the bytes; raise ArtifactLost if there is no such object."""

    def remove(self, name: str) -> None:
        """Remove an object; one that is not there is no error."""

    def check(self) -> None:
        """Raise StorageMisconfigured for what somebody has to mend before anything works."""


class ListedStorage(ArtifactStorage, Protocol):
    """A storage outside of the store: what it has may differ from what rows say."""

    def list_objects(self, folder: str, after: str, limit: int) -> Sequence[FoundObject]:
        """Return at most `limit` objects of a folder behind a name, by name; foreign ones too."""


def is_object_name(name: str) -> bool:
    """Return whether it is a name that we give: it leads nowhere else."""
    return _NAME.fullmatch(name) is not None


def object_name(installation: str, run_id: str, random: str) -> str:
    """Return the name of an object; `random` is 32 hex digits, which nobody can guess."""
    name = f"{installation}/{run_id}/{random}"
    if not is_object_name(name):
        raise ValueError(f"{name!r} is not a name of an object")
    return name
