"""The rows of stored profiles."""

from __future__ import annotations

from collections.abc import Mapping

from apps.operations.api import raise_generation
from apps.profiles.domain.records import Record, StoredProfiles
from apps.profiles.models import ProfileRecord, SuiteProfiles
from apps.profiles.selectors import TOPIC
from apps.streams.api import LostRace
from kernel import clock


def save(suite_id: str, before: StoredProfiles, after: StoredProfiles) -> None:
    """Write the rows that differ; raise LostRace if the suite was changed since it was read.

    Call it in a unit of work.
    """
    values = {"revision": after.revision, "default_id": after.default_id}
    if not before.revision:
        SuiteProfiles.objects.create(suite_id=suite_id, **values)
    elif not SuiteProfiles.objects.filter(suite_id=suite_id, revision=before.revision).update(
        **values
    ):
        raise LostRace
    known = {each.profile_id: each for each in before.records}
    kept = {each.profile_id for each in after.records}
    if gone := known.keys() - kept:
        ProfileRecord.objects.filter(suite_id=suite_id, profile_id__in=list(gone)).delete()
    for record in after.records:
        if record != known.get(record.profile_id):
            ProfileRecord.objects.update_or_create(
                suite_id=suite_id, profile_id=record.profile_id, defaults=_columns(record)
            )
    raise_generation(TOPIC)


def _columns(record: Record) -> Mapping[str, object]:
    return {
        "name": record.name,
        "file_name": record.file_name,
        "description": record.description,
        "scope": record.scope,
        "yaml": record.yaml,
        "secret_refs": [each.as_dict() for each in record.secret_refs],
        "extends_id": record.extends_id,
        "launchable": record.launchable,
        "seed_sha256": record.seed_sha256,
        "updated_at": clock.parse_rfc3339(record.updated_at),
        "updated_by": record.updated_by,
        "workspace_id": record.updated_in,
    }
