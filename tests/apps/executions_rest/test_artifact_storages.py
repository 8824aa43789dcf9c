"""Every route with bytes of artifacts, with the bytes in the store, a folder and a bucket."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from apps.executions.domain.artifact_files import head_of
from apps.executions.models import Artifact, Execution, StoredObject
from apps.executions.selectors.artifact_bytes import forget_pauses
from apps.executions.services.artifact_objects import place_bytes
from tests.apps.executions_rest.conftest import Caller, make_artifact, make_run
from tests.support.api_clients import problem
from tests.support.artifact_storages import (
    FailingStorage,
    fail_storage,
    new_bucket,
    use_location,
    use_store,
)

pytestmark = pytest.mark.django_db(transaction=True)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(90_000)
REPORT = b"<testsuite><testcase name='a'/><testcase name='b'><failure/></testcase></testsuite>"


@pytest.fixture(autouse=True)
def _no_pauses() -> Iterator[None]:
    forget_pauses()
    yield
    forget_pauses()


@pytest.fixture(params=["store", "disk", "s3"])
def where(
    request: pytest.FixtureRequest,
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    if request.param == "store":
        use_store(settings)
    elif request.param == "disk":
        use_location(settings, tmp_path.as_uri())
    else:
        use_location(settings, new_bucket(monkeypatch))
    return str(request.param)


@pytest.fixture
def away(settings: Any, tmp_path: Path) -> FailingStorage:
    return fail_storage(settings, tmp_path.as_uri())


def add(row: Execution, body: bytes, **fields: Any) -> Artifact:
    """An artifact whose bytes are where the setting says."""
    artifact = make_artifact(row, body, **fields)
    written = place_bytes(row.run_id, body).written
    if written is not None:
        written.save(force_insert=True)
        artifact.stored_object = written
        artifact.save()
    return artifact


@pytest.fixture
def row(ada: Caller) -> Execution:
    return make_run(ada.workspace_id, statuses=["healthy", "failed", "skipped"])


def unpacked(answer: Any) -> dict[str, bytes]:
    async def read() -> bytes:
        return b"".join([part async for part in answer.streaming_content])

    with zipfile.ZipFile(io.BytesIO(asyncio.run(read()))) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_file_comes_whole_and_in_part(where: str, ada: Caller, row: Execution) -> None:
    add(row, b"0123456789")
    path = f"executions/{row.run_id}/artifacts/check-report-raw"

    whole, part = ada.get(path), ada.get(path, Range="bytes=2-4")

    assert (whole.status_code, whole.content) == (200, b"0123456789")
    assert whole["ETag"] == f'"{Artifact.objects.get().sha256}"'
    assert whole["Content-Security-Policy"] == "sandbox"
    assert (part.status_code, part.content) == (206, b"234")
    assert ada.get(path, **{"If-None-Match": whole["ETag"]}).status_code == 304


def test_an_image_is_shown(where: str, ada: Caller, row: Execution) -> None:
    add(row, PNG, path="page.html")

    answer = ada.get(f"executions/{row.run_id}/artifacts/check-report-raw/image")

    assert (answer.status_code, answer.content, answer["Content-Type"]) == (200, PNG, "image/png")


def test_the_archive_has_every_file(where: str, ada: Caller, row: Execution) -> None:
    add(row, b"one" * 100_000)
    add(row, PNG, artifact_id="b", path="b.png")

    answer = ada.get(f"executions/{row.run_id}/artifacts/archive")

    assert unpacked(answer) == {"check/1/out/report.txt": b"one" * 100_000, "check/1/b.png": PNG}


def test_the_detail_has_the_beginnings(where: str, ada: Caller, row: Execution) -> None:
    add(row, b"some text")
    add(row, PNG, artifact_id="b", path="b.png")

    text, image = ada.get(f"executions/{row.run_id}").json()["artifacts"]

    assert (text["content"], image["imageType"]) == ("some text", "image/png")
    assert "content" not in image


def test_the_results_have_the_cases(where: str, ada: Caller, row: Execution) -> None:
    add(row, REPORT, step_id="seed", attempt=0, format="junit")

    document = ET.fromstring(ada.get(f"executions/{row.run_id}/junit").content)

    assert (document.get("tests"), document.get("failures")) == ("3", "1")  # and check


@pytest.mark.parametrize("part", ["", "/image"])
def test_a_storage_that_is_away_is_503(
    away: FailingStorage, ada: Caller, row: Execution, part: str
) -> None:
    add(row, PNG)
    away.is_away = True

    answer = ada.get(f"executions/{row.run_id}/artifacts/check-report-raw{part}")

    assert problem(answer) == (503, "artifact_unavailable")
    assert answer["Retry-After"] == "5"
    assert answer.json()["detail"] == (
        "the storage of artifacts is unavailable: it did not answer in time"
    )


def test_an_archive_of_a_storage_that_is_away_is_503(
    away: FailingStorage, ada: Caller, row: Execution
) -> None:
    add(row, PNG)
    away.is_away = True

    answer = ada.get(f"executions/{row.run_id}/artifacts/archive")

    assert problem(answer) == (503, "artifact_unavailable")


def test_a_lost_file_is_410_and_named_in_the_archive(
    away: FailingStorage, ada: Caller, row: Execution
) -> None:
    add(row, b"one")
    add(row, b"two", artifact_id="b", path="b.txt")
    lost = StoredObject.objects.get(artifacts__artifact_id="b")
    away.inner.remove(lost.name)

    answer = ada.get(f"executions/{row.run_id}/artifacts/b")

    assert problem(answer) == (410, "artifact_lost")
    assert answer.json()["detail"] == "the file is gone from the storage of artifacts"
    files = unpacked(ada.get(f"executions/{row.run_id}/artifacts/archive"))
    assert files == {"check/1/out/report.txt": b"one", "LOST.txt": b"check/1/b.txt\n"}


def test_the_detail_asks_no_storage(away: FailingStorage, ada: Caller, row: Execution) -> None:
    add(row, b"some text")
    away.is_away = True
    away.calls.clear()

    answer = ada.get(f"executions/{row.run_id}")

    assert answer.json()["artifacts"][0]["content"] == "some text"
    assert away.calls == []


def test_what_is_kept_of_a_file_is_what_lists_show() -> None:
    assert head_of(b"x" * 100_000) == b"x" * 65_536
    assert head_of(PNG) == PNG[:16]
    assert head_of("ü".encode() * 40_000)[-1:] == "ü".encode()[-1:]
    assert head_of(b"") == b""
