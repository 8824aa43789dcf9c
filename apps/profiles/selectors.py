"""Reads of stored profiles, kept until one of them changes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Final

from django.db import connection

from apps.operations.api import CachedReads, generation
from apps.profiles.domain.profiles import SecretRef
from apps.profiles.domain.records import Record, StoredProfiles
from apps.profiles.models import ProfileRecord, ProfilesFileContent, SuiteProfiles
from kernel.clock import rfc3339

TOPIC: Final = "profiles"
_reads: Final = CachedReads(TOPIC)


class StoredReads:
    """The stored profiles of this process, by suite. It is thread-safe.

    One query finds out whether anything has changed; only what has is read again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, StoredProfiles] = {}

    def all(self) -> Mapping[str, StoredProfiles]:
        if connection.in_atomic_block:  # it may see what is never committed
            return _read(_revisions())
        revisions = _reads.get("revisions", _revisions)
        with self._lock:
            kept = {
                suite_id: self._kept[suite_id]
                for suite_id, (revision, _) in revisions.items()
                if suite_id in self._kept and self._kept[suite_id].revision == revision
            }
        missing = {key: value for key, value in revisions.items() if key not in kept}
        found = kept | _read(missing) if missing else kept
        with self._lock:
            self._kept = found
        return found


_stored: Final = StoredReads()


def stored_profiles() -> Mapping[str, StoredProfiles]:
    """Return what is stored, by suite id; suites without stored profiles are absent."""
    return _stored.all()


def stored_generation() -> int:
    """Return a number that changes with what is stored."""
    return generation(TOPIC)


def everything_stored() -> Mapping[str, StoredProfiles]:
    """Return what the store has of every suite now."""
    return _read(_revisions())


def stored_profiles_of(suite_id: str) -> StoredProfiles:
    """Return what the store has of a suite now."""
    row = SuiteProfiles.objects.filter(suite_id=suite_id).first()
    if row is None:
        return StoredProfiles()
    return _read({suite_id: [row.revision, row.default_id]})[suite_id]


def is_known_content(sha256: str) -> bool:
    """Return whether this content of the file was imported, or written since."""
    return ProfilesFileContent.objects.filter(sha256=sha256).exists()


def _revisions() -> dict[str, list[str]]:
    rows = SuiteProfiles.objects.values_list("suite_id", "revision", "default_id")
    return {suite_id: [revision, default_id] for suite_id, revision, default_id in rows}


def _read(revisions: Mapping[str, list[str]]) -> dict[str, StoredProfiles]:
    records: dict[str, list[Record]] = {suite_id: [] for suite_id in revisions}
    for row in _rows(records):
        records[row.suite_id].append(record_of(row))
    return {
        suite_id: StoredProfiles(
            revision=revision, default_id=default_id, records=tuple(records[suite_id])
        )
        for suite_id, (revision, default_id) in revisions.items()
    }


def _rows(suite_ids: Iterable[str]) -> Iterable[ProfileRecord]:
    wanted = list(suite_ids)
    if not wanted:
        return []
    return ProfileRecord.objects.filter(suite_id__in=wanted).order_by("suite_id", "profile_id")


def record_of(row: ProfileRecord) -> Record:
    return Record(
        profile_id=row.profile_id,
        name=row.name,
        file_name=row.file_name,
        description=row.description,
        scope=row.scope,
        yaml=row.yaml,
        secret_refs=tuple(SecretRef(**each) for each in row.secret_refs),
        extends_id=row.extends_id,
        launchable=row.launchable,
        updated_at=rfc3339(row.updated_at),
        updated_by=row.updated_by,
        updated_in=row.workspace_id,
        seed_sha256=row.seed_sha256,
    )
