"""Suites and stored profiles joined: the profiles that lists, launches and editors go by."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NotRequired, TypedDict

from django.db import DatabaseError

from apps.accounts.api import Principal
from apps.http.api import is_precondition_met, strong_etag
from apps.operations.api import is_store_away
from apps.profiles.api import (
    Edit,
    Profile,
    ProfileRecordDocument,
    ProfileSet,
    StoredProfiles,
    default_profile,
    profile_set,
    record_document,
    seeds_of,
    stored_generation,
    stored_profiles,
    stored_profiles_of,
    warnings_of,
)
from apps.suites.domain.definition import Suite
from kernel.errors import FieldError, FileWarning, PlatformError, WarningDocument
from kernel.wire_types import Count


class ProfileSummary(TypedDict):
    """A suite in the list of profiles."""

    id: str
    title: str
    description: str
    repository: str
    profileCount: Count
    launchableCount: Count
    defaultProfileFileName: NotRequired[str]


class ProfileWarningDocument(WarningDocument, TypedDict):
    """What is legal in a profile but most likely wrong."""

    profileId: str


class SuiteProfilesDocument(TypedDict):
    """The profiles of a suite as one caller sees them (reference: control-plane 10)."""

    suiteId: str
    suiteTitle: str
    suiteDescription: str
    repository: str
    defaultProfileId: NotRequired[str]
    defaultProfileFileName: NotRequired[str]
    profiles: list[ProfileRecordDocument]
    warnings: list[ProfileWarningDocument]


@dataclass(frozen=True, slots=True)
class _Joined:
    """A suite with its stored profiles of one revision."""

    read: Suite
    revision: str
    suite: Suite


class ProfileJoin:
    """Attaches stored profiles to suites, anew only when either has changed. It is thread-safe.

    `files_only`: for commands that work on files where there is no store; the SuiteIndex goes by it
    too.
    """

    def __init__(self) -> None:
        self.files_only = False
        self._lock = threading.Lock()
        self._kept: dict[str, _Joined] = {}

    def join_profiles(self, suites: Iterable[Suite]) -> list[Suite]:
        """Give the suites their profiles by one query, however many suites there are."""
        stored = {} if self.files_only else stored_profiles()
        return [self._one(suite, stored.get(suite.suite_id)) for suite in suites]

    def token(self) -> int:
        """Return a number that changes with the stored profiles."""
        return 0 if self.files_only else stored_generation()

    def _one(self, suite: Suite, stored: StoredProfiles | None) -> Suite:
        if stored is None:
            return suite
        known = self._kept.get(suite.suite_id)
        if known and known.read is suite and known.revision == stored.revision:
            return known.suite
        joined = replace(suite, profiles=_set_of(suite, stored).profiles)
        with self._lock:
            self._kept[suite.suite_id] = _Joined(suite, stored.revision, joined)
        return joined


profile_join: Final = ProfileJoin()


NO_STORE: Final = (
    "note: the store cannot be read, so only the suites of SUITES_DIR are known, with the profiles"
    " of their files"
)


def use_files_without_store() -> bool:
    """Let this process go by the files alone if the store cannot be read; return whether it does.

    For commands that work on a checkout: no server may guess.
    """
    try:
        stored_profiles()
    except Exception as error:  # a driver's own errors included
        if not isinstance(error, DatabaseError) and not is_store_away(error):
            raise
        profile_join.files_only = True
    return profile_join.files_only


def current_profiles(suite: Suite) -> ProfileSet:
    """Return the profiles of a suite with their texts, from the store as it is now."""
    return _set_of(suite, stored_profiles_of(suite.suite_id))


def _set_of(suite: Suite, stored: StoredProfiles) -> ProfileSet:
    return profile_set(seeds_of(suite.package.files), stored)


class ProfilesChanged(PlatformError):
    """The profiles of the suite were changed since they were read."""

    code = "precondition_failed"


def profile_edit(principal: Principal, suite: Suite, *, if_match: str = "") -> Edit:
    """Return what a write of the suite's profiles needs.

    With `if_match`, entity tags, the write raises ProfilesChanged unless the caller's
    representation still has one of them.
    """

    def require_unchanged(current: ProfileSet) -> None:
        tag = strong_etag(profiles_document(suite, current, principal))
        if not is_precondition_met(tag, if_match):
            raise ProfilesChanged("the profiles of this suite were changed since they were read")

    return Edit(
        principal=principal,
        suite_id=suite.suite_id,
        seeds=seeds_of(suite.package.files),
        precondition=require_unchanged,
    )


def profile_summary(suite: Suite) -> ProfileSummary:
    summary: ProfileSummary = {
        "id": suite.suite_id,
        "title": suite.metadata.title,
        "description": suite.metadata.description,
        "repository": suite.metadata.repository,
        "profileCount": len(suite.profiles),
        "launchableCount": sum(profile.launchable for profile in suite.profiles),
    }
    if chosen := default_profile(suite.profiles):
        summary["defaultProfileFileName"] = chosen.file_name
    return summary


def profiles_document(
    suite: Suite, found: ProfileSet, principal: Principal
) -> SuiteProfilesDocument:
    """Return SuiteProfiles; authors are shown in their own workspace, and to administrators."""
    document: SuiteProfilesDocument = {
        "suiteId": suite.suite_id,
        "suiteTitle": suite.metadata.title,
        "suiteDescription": suite.metadata.description,
        "repository": suite.metadata.repository,
        "profiles": [_record(found, profile, principal) for profile in found.profiles],
        "warnings": [
            _warning(profile, warning)
            for profile in found.profiles
            for warning in warnings_of(profile)
        ],
    }
    if chosen := found.default:
        document["defaultProfileId"] = chosen.profile_id
        document["defaultProfileFileName"] = chosen.file_name
    return document


def _warning(profile: Profile, warning: FieldError) -> ProfileWarningDocument:
    return {"profileId": profile.profile_id, **FileWarning.as_dict(warning)}


def _record(found: ProfileSet, profile: Profile, principal: Principal) -> ProfileRecordDocument:
    document = record_document(found, profile)
    record = found.record(profile.profile_id)
    if record is None or not record.updated_by:
        return document
    own = record.updated_in == str(principal.workspace_id)
    if own or principal.is_admin:
        document["updatedBy"] = record.updated_by
    return document
