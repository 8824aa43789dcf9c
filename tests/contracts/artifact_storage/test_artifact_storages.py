"""What every storage of artifacts promises: the store, a folder and a bucket."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from apps.executions.domain.artifact_storage import (
    ArtifactLost,
    ArtifactStorage,
    ListedStorage,
    StorageMisconfigured,
    StorageUnavailable,
)
from apps.executions.storages.disk import DiskStorage
from apps.executions.storages.s3 import BucketStorage
from apps.executions.storages.store import StoreStorage
from tests.support import s3_server
from tests.support.artifact_storages import new_bucket, use_location
from tests.support.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)
HERE = "2f1c0e3a-0000-4000-8000-1234567890ab"  # an installation
BODY = os.urandom(300_000)


@dataclass(frozen=True)
class Stage:
    """A storage, the name that it gives to bytes, and what it has there."""

    storage: ArtifactStorage
    name_of: Callable[[bytes], str]


def random_name(_body: bytes, run: str = "run-0123456789ab") -> str:
    return f"{HERE}/{run}/{uuid4().hex}"


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> ListedStorage:
    return use_location(settings, tmp_path.as_uri())


@pytest.fixture
def bucket(settings: Any, monkeypatch: pytest.MonkeyPatch) -> ListedStorage:
    return use_location(settings, new_bucket(monkeypatch))


@pytest.fixture(params=["store", "disk", "s3"])
def stage(request: pytest.FixtureRequest) -> Stage:
    if request.param == "store":
        return Stage(StoreStorage(), digest)
    made = request.getfixturevalue({"disk": "folder", "s3": "bucket"}[request.param])
    return Stage(made, random_name)


@pytest.fixture(params=["disk", "s3"])
def listed(request: pytest.FixtureRequest) -> ListedStorage:
    made = request.getfixturevalue({"disk": "folder", "s3": "bucket"}[request.param])
    return cast(ListedStorage, made)


@pytest.mark.parametrize("body", [b"", b"x", BODY], ids=["empty", "one byte", "300 kB"])
def test_bytes_come_back(stage: Stage, body: bytes) -> None:
    name = stage.name_of(body)

    stage.storage.write(name, body)

    assert b"".join(stage.storage.read(name)) == body


def test_bytes_outside_of_the_store_come_in_pieces(listed: ListedStorage) -> None:
    name = random_name(BODY)
    listed.write(name, BODY)

    assert max(len(piece) for piece in listed.read(name)) <= 64 * 2**10


def test_the_same_object_again_is_no_error(stage: Stage) -> None:
    name = stage.name_of(BODY)
    stage.storage.write(name, BODY)

    stage.storage.write(name, BODY)

    assert b"".join(stage.storage.read(name)) == BODY


def test_an_object_that_is_not_there_is_lost(stage: Stage) -> None:
    with pytest.raises(ArtifactLost):
        b"".join(stage.storage.read(stage.name_of(b"never written")))


def test_to_remove_twice_is_no_error(stage: Stage) -> None:
    name = stage.name_of(BODY)
    stage.storage.write(name, BODY)

    stage.storage.remove(name)
    stage.storage.remove(name)

    with pytest.raises(ArtifactLost):
        b"".join(stage.storage.read(name))


def test_a_storage_that_works_passes_its_check(stage: Stage) -> None:
    stage.storage.check()


def test_five_write_at_once(listed: ListedStorage) -> None:
    bodies = [os.urandom(100_000) for _ in range(5)]
    names = [random_name(body) for body in bodies]

    at_once([partial(listed.write, name, body) for name, body in zip(names, bodies, strict=True)])

    assert [b"".join(listed.read(name)) for name in names] == bodies


def test_objects_are_listed_by_name_in_pages(listed: ListedStorage) -> None:
    names = sorted(random_name(b"", run) for run in ("run-a", "run-b", "run-c") for _ in range(3))
    for name in names:
        listed.write(name, b"x")
    listed.write(f"{uuid4()}/run-a/{uuid4().hex}", b"of another installation")

    found: list[str] = []
    while page := listed.list_objects(HERE, found[-1] if found else "", 4):
        assert len(page) <= 4
        found += [each.name for each in page]

    assert found == names


def test_listing_before_anything_was_written_finds_nothing(listed: ListedStorage) -> None:
    assert list(listed.list_objects(HERE, "", 10)) == []


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        f"{HERE}/../{HERE}/{'0' * 32}",
        f"{HERE}/run-a/{'0' * 31}",
        f"{HERE}/run-a/{'0' * 32}/x",
        f"{HERE}/run-a/{'0' * 32}\n",
        "",
    ],
)
def test_a_name_that_is_not_ours_leads_nowhere(listed: ListedStorage, name: str) -> None:
    with pytest.raises(ArtifactLost):
        listed.write(name, b"x")
    with pytest.raises(ArtifactLost):
        b"".join(listed.read(name))
    listed.remove(name)


def test_files_are_closed_to_other_users(folder: ListedStorage, tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        folder.write(random_name(b""), b"secret")
    finally:
        os.umask(umask)

    modes = {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_dir()}
    assert modes == {0o700}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()} == {
        0o600
    }


def test_no_half_written_file_has_the_name(
    folder: ListedStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies while it writes leaves another name, which the sweep finds."""
    name = random_name(b"")
    seen: list[list[str]] = []
    sync = os.fsync

    def look(handle: int) -> None:
        seen.append([path.name for path in tmp_path.rglob("*") if path.is_file()])
        sync(handle)

    monkeypatch.setattr(os, "fsync", look)
    folder.write(name, BODY)

    assert seen[0] == [f"{name[-32:]}.part"]
    assert seen[1] == [name[-32:]]


def test_a_failed_write_leaves_nothing(
    folder: ListedStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(StorageUnavailable, match="No space left on device"):
        folder.write(random_name(b""), BODY)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_links_are_not_followed(folder: ListedStorage, tmp_path: Path, depth: int) -> None:
    """A link below the folder, whoever made it, leads to nothing, neither to read nor to remove."""
    name = random_name(b"")
    target = tmp_path / "elsewhere" / Path(*name.split("/")[depth:])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"of somebody else")
    link = tmp_path.joinpath(*name.split("/")[: depth + 1])
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "elsewhere" / name.split("/")[depth])

    with pytest.raises(ArtifactLost):
        b"".join(folder.read(name))
    folder.remove(name)

    assert target.read_bytes() == b"of somebody else"


def test_the_folder_of_a_run_goes_with_its_last_file(folder: ListedStorage, tmp_path: Path) -> None:
    names = [random_name(b""), random_name(b"")]
    for name in names:
        folder.write(name, b"x")

    folder.remove(names[0])
    assert (tmp_path / HERE / "run-0123456789ab").is_dir()
    folder.remove(names[1])
    assert not (tmp_path / HERE / "run-0123456789ab").exists()


def test_a_missing_folder_is_to_be_mended(settings: Any, tmp_path: Path) -> None:
    """It may be a disk that is not mounted: nothing is written into its place."""
    storage = use_location(settings, (tmp_path / "missing").as_uri())

    with pytest.raises(StorageMisconfigured, match="does not exist"):
        storage.check()
    with pytest.raises(StorageMisconfigured, match="does not exist"):
        storage.write(random_name(b""), b"x")
    with pytest.raises(StorageUnavailable):
        b"".join(storage.read(random_name(b"")))
    assert not (tmp_path / "missing").exists()


def test_a_missing_bucket_is_to_be_mended(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    url = new_bucket(monkeypatch).replace("s3://artifacts-", "s3://absent-")
    storage = use_location(settings, url)

    with pytest.raises(StorageMisconfigured, match="the bucket does not exist"):
        storage.check()
    with pytest.raises(StorageMisconfigured, match="the bucket does not exist"):
        storage.write(random_name(b""), b"x")


def test_a_server_that_is_away_is_said_without_its_address(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_bucket(monkeypatch)
    storage = use_location(settings, "s3://bucket?endpoint=http://127.0.0.1:1&region=us-east-1")

    for call in (
        storage.check,
        lambda: storage.write(random_name(b""), b"x"),
        lambda: b"".join(storage.read(random_name(b""))),
        lambda: storage.list_objects(HERE, "", 1),
    ):
        with pytest.raises(StorageUnavailable) as raised:
            call()
        assert not isinstance(raised.value, StorageMisconfigured)
        assert "127.0.0.1" not in raised.value.detail


def test_without_credentials_the_sentence_says_so(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = new_bucket(monkeypatch)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    with pytest.raises(StorageMisconfigured, match="no AWS credentials were found"):
        use_location(settings, url).check()


def test_a_path_that_is_none_is_to_be_mended() -> None:
    storage = DiskStorage(location="/x\x00y")

    for call in (storage.check, lambda: storage.write(random_name(b""), b"x")):
        with pytest.raises(StorageMisconfigured, match="no valid path"):
            call()


@pytest.mark.parametrize(
    ("endpoint", "region", "sentence"),
    [
        ("http://minio_s3:9000", "us-east-1", "its endpoint, region or bucket is not valid"),
        ("http://127.0.0.1:1", "-", "its endpoint, region or bucket is not valid"),
        ("http://127.0.0.1:1", "us-east-1", "AWS_PROFILE names no profile"),
    ],
)
def test_what_boto3_refuses_is_to_be_mended(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, region: str, sentence: str
) -> None:
    new_bucket(monkeypatch)
    if "AWS_PROFILE" in sentence:
        monkeypatch.setenv("AWS_PROFILE", "nobody")
    storage = BucketStorage(
        bucket_name="bucket",
        location="",
        region_name=region,
        endpoint_url=endpoint,
        addressing_style="path",
    )

    for call in (storage.check, lambda: storage.write(random_name(b""), b"x")):
        with pytest.raises(StorageMisconfigured, match=sentence):
            call()


def test_keys_lie_below_the_prefix(bucket: ListedStorage) -> None:
    name = random_name(b"")
    bucket.write(name, b"x")

    listed = s3_server.client().list_objects_v2(Bucket=cast(Any, bucket).bucket_name)
    assert [each["Key"] for each in listed["Contents"]] == [f"partita/{name}"]
