"""Storages of artifacts for tests: the setting, a folder, a bucket, and one that fails at will."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.core.files.storage import storages

from apps.executions.domain.artifact_location import location_at
from apps.executions.domain.artifact_storage import (
    FoundObject,
    ListedStorage,
    StorageUnavailable,
    StorageUnreachable,
)
from apps.executions.selectors.artifact_bytes import forget_pauses
from tests.support import s3_server


def use_location(settings: Any, url: str) -> ListedStorage:
    """Let new artifacts go to a URL; return the storage there."""
    location = location_at(url)
    settings.ARTIFACT_LOCATION = location
    others = {name: entry for name, entry in settings.STORAGES.items() if name != "artifacts"}
    settings.STORAGES = {**others, "artifacts": location.as_entry()}
    forget_pauses()
    return cast(ListedStorage, storages["artifacts"])


def use_store(settings: Any) -> None:
    """Let new artifacts go into the store."""
    settings.ARTIFACT_LOCATION = None
    forget_pauses()


def new_bucket(monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a bucket on the S3 server of the tests; return the URL of a prefix in it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.SECRET_KEY)
    bucket = f"artifacts-{uuid4().hex[:12]}"
    s3_server.client().create_bucket(Bucket=bucket)
    endpoint = quote(s3_server.endpoint(), safe=":/")
    return f"s3://{bucket}/partita?region=us-east-1&endpoint={endpoint}"


class FailingStorage:
    """A storage in front of another one, which is away, refuses, or ends a process at will."""

    def __init__(self, inner: ListedStorage) -> None:
        self.inner = inner
        self.is_away = False
        self.refuses = False
        self.calls: list[str] = []
        self.crashes_after = ""  # the call after which the process "is killed"

    def write(self, name: str, body: bytes) -> None:
        with self._call("write"):
            self.inner.write(name, body)

    def read(self, name: str) -> Iterator[bytes]:
        with self._call("read"):
            yield from self.inner.read(name)

    def remove(self, name: str) -> None:
        with self._call("remove"):
            self.inner.remove(name)

    def check(self) -> None:
        with self._call("check"):
            self.inner.check()

    def list_objects(self, folder: str, after: str, limit: int) -> Sequence[FoundObject]:
        with self._call("list"):
            return self.inner.list_objects(folder, after, limit)

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        self.calls.append(name)
        if self.is_away:
            raise StorageUnreachable("it did not answer in time")
        if self.refuses:
            raise StorageUnavailable("it refused the request (InternalError)")
        yield
        if self.crashes_after == name:
            raise Killed


class Killed(BaseException):
    """The process ends here: no handler of the code runs."""


def fail_storage(settings: Any, url: str) -> FailingStorage:
    """Let new artifacts go to a URL, through a storage that fails at will."""
    failing = FailingStorage(use_location(settings, url))
    storages._storages["artifacts"] = failing  # type: ignore[attr-defined]
    return failing
