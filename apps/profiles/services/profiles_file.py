"""svc-profiles.yaml in and out. The store is the authority.

A content of the file is taken over unless it was imported or written before, so that an old copy
undoes nothing. The file is replaced whole: whoever reads it sees the old or the new content.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from apps.operations.api import raise_generation
from apps.profiles import conf
from apps.profiles.domain.profiles_file import ProfilesFileInvalid, read_profiles_file
from apps.profiles.domain.profiles_file_text import update_text
from apps.profiles.domain.records import Record, StoredProfiles
from apps.profiles.models import ProfileRecord, ProfilesFileContent, SuiteProfiles
from apps.profiles.selectors import TOPIC, everything_stored, is_known_content
from apps.profiles.services.rows import save
from apps.streams.api import unit_of_work
from kernel.errors import FieldError
from kernel.ids import new_uuid
from kernel.mirrored_file import MirroredFile, NotText, digest_of

_CONTENTS_KEPT: Final = 1000
_log = logging.getLogger("partita.profiles")
_Comparable = dict[str, tuple[str, dict[str, Record]]]


def import_profiles_file() -> None:
    """Take over the file unless its content was imported or written before.

    Raise ProfilesFileInvalid, OSError: the stored profiles stay then.
    """
    file = conf.profiles_file()
    content = file.content()
    if content is None:
        return
    digest = digest_of(content)
    if not is_known_content(digest):
        _import(_parse(file, content), digest)
        _log.info("%s was imported", file.path.name)


def take_over_file() -> None:
    """Import what somebody wrote into the file; an invalid file changes nothing."""
    try:
        import_profiles_file()
    except (OSError, ProfilesFileInvalid) as error:
        _log.error("The stored profiles remain unchanged: %s", _reason(error))


def write_profiles_file() -> None:
    """Write what is stored to the file; a failure is logged, because the store has everything."""
    file = conf.profiles_file()
    try:
        with file.lock():
            _write(file)
    except (OSError, ProfilesFileInvalid) as error:
        reason = _reason(error)
        _log.warning("%s was not rewritten, the store has all profiles: %s", file.path.name, reason)


def file_problem() -> str:
    """Return why the current content of the file cannot be taken over, or ""."""
    file = conf.profiles_file()
    try:
        content = file.content()
        if content is not None and not is_known_content(digest_of(content)):
            _parse(file, content)
    except (OSError, ProfilesFileInvalid) as error:
        return f"the stored profiles stay in force: {_reason(error)}"
    return ""


@unit_of_work
def _import(found: Mapping[str, StoredProfiles], digest: str) -> None:
    if is_known_content(digest):  # another process was first
        return
    stored = everything_stored()
    for suite_id in stored.keys() - found.keys():
        SuiteProfiles.objects.filter(suite_id=suite_id).delete()
        ProfileRecord.objects.filter(suite_id=suite_id).delete()
    for suite_id, after in found.items():
        before = stored.get(suite_id, StoredProfiles())
        save(suite_id, before, replace(after, revision=str(new_uuid())))
    ProfilesFileContent.objects.all().delete()
    ProfilesFileContent.objects.create(sha256=digest)
    raise_generation(TOPIC)


def _write(file: MirroredFile) -> None:
    content = file.content()
    stored = everything_stored()
    if content is None and not stored:
        return
    if content is not None and not is_known_content(digest_of(content)):
        _parse(file, content)
        raise _invalid(file, "someone changed it; the next change imports it")
    before = (content or b"").decode()
    after = update_text(before, stored)
    if after == before:
        return
    if _comparable(_parse(file, after.encode())) != _comparable(stored):
        raise _invalid(file, "these profiles cannot be written as YAML")
    _remember(digest_of(after.encode()))
    file.replace(after.encode())


@unit_of_work
def _remember(digest: str) -> None:
    if is_known_content(digest):
        return
    ProfilesFileContent.objects.create(sha256=digest)
    newest = ProfilesFileContent.objects.order_by("-seen_at").values_list("pk", flat=True)
    if old := list(newest[_CONTENTS_KEPT : 2 * _CONTENTS_KEPT]):
        ProfilesFileContent.objects.filter(pk__in=old).delete()


def _comparable(stored: Mapping[str, StoredProfiles]) -> _Comparable:
    """Return what the file says of each suite; when a tombstone was made is not in it."""
    return {
        suite_id: (
            one.default_id,
            {
                each.profile_id: replace(each, updated_at="", updated_by="", updated_in="")
                for each in one.records
            },
        )
        for suite_id, one in stored.items()
        if one.records
    }


def _parse(file: MirroredFile, content: bytes) -> dict[str, StoredProfiles]:
    try:
        text = file.text_of(content)
    except NotText as error:
        raise _invalid(file, str(error)) from None
    return read_profiles_file(text, file=file.path.name, rules=conf.draft_rules())


def _invalid(file: MirroredFile, detail: str) -> ProfilesFileInvalid:
    return ProfilesFileInvalid(
        [FieldError(code="invalid_value", detail=detail, file=file.path.name)]
    )


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):  # whose own words have the path
        return f"{conf.profiles_file().path.name}: {error.strerror}"
    return str(error)
