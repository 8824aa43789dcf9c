"""The suite of a snapshot, once more for a launch: as it was, or under another of its profiles.

Files, lock and definition are those of the snapshot. Modules and imports are read anew for another
profile; unless they give the very snapshot under its own profile, it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast
from uuid import UUID

from apps.executions.models import Snapshot
from apps.executions.selectors.definitions import (
    RunDefinition,
    archive_of,
    run_definition,
    suite_of,
)
from apps.executions.services.storage import (
    PackedSuite,
    archives_of,
    mocks_of,
    packed_suite,
    stored_archive,
)
from apps.profiles.api import LaunchProfile, SecretRef, select_profile
from apps.suites.api import (
    DefinitionDocument,
    ResolvedSuite,
    Suite,
    resolve_suite,
    suite_from_files,
)
from kernel.errors import PlatformError
from readers.archive import unpack

_OF_THE_PROFILE: Final = ("topology", "resolvedDependencies")


class SnapshotDiffers(PlatformError):
    """The suite of the snapshot does not resolve as it did, so no other profile can be chosen."""

    code = "snapshot_differs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLaunch:
    """What a launch needs of a snapshot."""

    suite: ResolvedSuite
    profile: LaunchProfile
    packed: PackedSuite
    secret_refs: tuple[SecretRef, ...]  # of the profile and of the imports


def snapshot_launch(snapshot: Snapshot) -> SnapshotLaunch:
    """Return a snapshot as it is."""
    definition = run_definition(snapshot.pk)
    archive_sha256 = snapshot.archive_sha256 or ""
    return SnapshotLaunch(
        suite=_stored_suite(snapshot.pk, definition),
        profile=_stored_profile(definition),
        packed=PackedSuite(
            digest=snapshot.digest,
            document=bytes(snapshot.document),
            archive=stored_archive(archive_sha256) if archive_sha256 else b"",
            archive_sha256=archive_sha256,
        ),
        secret_refs=tuple(SecretRef(**each) for each in definition.all_secret_refs()),
    )


def snapshot_launch_with(snapshot: Snapshot, requested: str) -> SnapshotLaunch:
    """Return the suite of a snapshot under another of its profiles (file name or id).

    Raise ProfileNotInSuite, ProfileInvalid, TopologyInvalid, and SnapshotDiffers if modules or
    imports are not what they were.
    """
    definition = run_definition(snapshot.pk)
    suite_id = definition.suite["id"]
    suite = suite_from_files(suite_id, unpack(_own_archive(snapshot.pk, definition)))
    profile = select_profile(suite.profiles, requested, suite_id=suite_id)
    _require_equal(suite, snapshot.pk, definition, profile.file_name)
    resolved = resolve_suite(suite, profile_env=profile.env)
    stored = suite_of(snapshot.pk)
    fresh: Mapping[str, Any] = resolved.definition
    chosen = {key: fresh[key] for key in _OF_THE_PROFILE if key in fresh}
    kept = {key: value for key, value in stored.items() if key not in _OF_THE_PROFILE}
    named = replace(
        resolved,
        title=definition.suite["title"],
        repository=definition.suite["repository"],
        definition=cast("DefinitionDocument", kept | chosen),
    )
    imports = [each for one in resolved.imports for each in one.secret_refs]
    return SnapshotLaunch(
        suite=named,
        profile=profile,
        packed=packed_suite(named, profile),
        secret_refs=(*profile.secret_refs, *imports),
    )


def _require_equal(
    suite: Suite, snapshot_id: UUID, definition: RunDefinition, profile: str
) -> None:
    """Raise SnapshotDiffers unless the suite resolves as in the snapshot, under its profile."""
    launch_instead = f"launch the suite with {profile} instead"
    try:
        now = resolve_suite(suite, profile_env=definition.profile["env"])
    except PlatformError as error:
        raise SnapshotDiffers(
            f"the suite of this run does not resolve any more ({error.detail}): {launch_instead}"
        ) from None
    before = {
        "topology": suite_of(snapshot_id)["topology"],
        "contents": definition.contents,
        "mocks": definition.mocks,
    }
    same = {
        "topology": list(now.topology),
        "contents": archives_of(now)[1],
        "mocks": mocks_of(now).get("mocks", {}),
    }
    if json.dumps(before, sort_keys=True) != json.dumps(same, sort_keys=True):
        raise SnapshotDiffers(
            "the modules or imports of this run are not what they were, so its suite cannot be "
            f"resolved with another profile: {launch_instead}"
        )


def _own_archive(snapshot_id: UUID, definition: RunDefinition) -> bytes:
    content = definition.content_of(definition.suite["id"], "")
    if content is None:
        raise SnapshotDiffers("this run kept no files of its suite: launch the suite instead")
    return archive_of(snapshot_id, content)


def _stored_suite(snapshot_id: UUID, definition: RunDefinition) -> ResolvedSuite:
    document = suite_of(snapshot_id)
    return ResolvedSuite(
        id=definition.suite["id"],
        title=definition.suite["title"],
        repository=definition.suite["repository"],
        version=document.get("version", ""),
        description=document.get("description", ""),
        definition=cast("DefinitionDocument", document),
        topology=definition.nodes,
        files={},
        content_digest=document.get("contentDigest", ""),
        print_lines=(),
    )


def _stored_profile(definition: RunDefinition) -> LaunchProfile:
    stored = definition.profile
    return LaunchProfile(
        file_name=stored.get("fileName", ""),
        label=stored.get("label", ""),
        env=stored.get("env", {}),
        services=stored.get("services", {}),
        secret_refs=tuple(SecretRef(**each) for each in stored.get("secretRefs", ())),
        observability=stored["observability"],
        keep_on_failure_ms=stored.get("keepOnFailureMs", 0),
    )
