"""Snapshots: what a run needs for good, packed and addressed by its content."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from apps.executions.models import Snapshot
from apps.executions.services.artifacts import store_blob
from apps.profiles.api import LaunchProfile
from apps.suites.api import ResolvedSuite
from kernel import clock
from kernel.ids import new_uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSuite:
    """Made before the transaction: `archive` is the suite's files as tar.gz, empty for none."""

    digest: str
    document: bytes
    archive: bytes
    archive_sha256: str


def packed_suite(suite: ResolvedSuite, profile: LaunchProfile) -> PackedSuite:
    """Equal suites and profiles give equal bytes."""
    archive = tar_gz(suite.files) if suite.files else b""
    sha256 = hashlib.sha256(archive).hexdigest()
    contents = {suite.id: {"digest": f"sha256:{sha256}", "size": len(archive)}} if archive else {}
    document = json.dumps(
        {
            "suite": _without_file_contents(suite),
            "profile": _profile_document(profile),
            "contents": contents,
        },
        sort_keys=True,
        separators=(",", ":"),
    ).encode()
    return PackedSuite(
        digest=f"sha256:{hashlib.sha256(document).hexdigest()}",
        document=zlib.compress(document),
        archive=archive,
        archive_sha256=sha256,
    )


def store_snapshot(packed: PackedSuite) -> Snapshot:
    """Within the caller's unit of work; the row of an equal snapshot is used again."""
    if packed.archive:
        store_blob(packed.archive_sha256, packed.archive)
    snapshot, _ = Snapshot.objects.get_or_create(
        digest=packed.digest,
        defaults={"id": new_uuid(), "document": packed.document, "created_at": clock.now()},
    )
    return snapshot


def tar_gz(files: Mapping[str, bytes]) -> bytes:
    """Sorted, without times and owners; scripts are executable for everyone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(files):
            entry = tarfile.TarInfo(path)
            entry.size = len(files[path])
            entry.mode = 0o755 if files[path].startswith(b"#!") else 0o644
            archive.addfile(entry, io.BytesIO(files[path]))
    return gzip.compress(buffer.getvalue(), mtime=0)


def _without_file_contents(suite: ResolvedSuite) -> dict[str, Any]:
    sources = [
        {key: value for key, value in source.items() if key != "content"}
        for source in suite.definition.get("sourceFiles", ())
    ]
    return {**suite.definition, "sourceFiles": sources, "topology": list(suite.topology)}


def _profile_document(profile: LaunchProfile) -> dict[str, Any]:
    return {
        "fileName": profile.file_name,
        "label": profile.label,
        "env": dict(profile.env),
        "services": {step: dict(env) for step, env in profile.services.items()},
        "secretRefs": [asdict(reference) for reference in profile.secret_refs],
        "observability": dict(profile.observability),
    }
