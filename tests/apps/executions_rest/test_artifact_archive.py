"""All artifacts as one zip, images that pages show, and files that have expired."""

from __future__ import annotations

import asyncio
import io
import zipfile
from typing import Any

import pytest

from apps.executions.models import Artifact, Execution
from kernel import clock
from tests.apps.executions_rest.conftest import Caller, make_artifact, make_run
from tests.support.api_clients import problem

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture
def row(ada: Caller) -> Execution:
    return make_run(ada.workspace_id)


def unpacked(answer: Any) -> dict[str, bytes]:
    async def read() -> bytes:
        return b"".join([part async for part in answer.streaming_content])

    with zipfile.ZipFile(io.BytesIO(asyncio.run(read()))) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.django_db(transaction=True)
def test_the_archive_has_every_file_below_its_step_and_attempt(ada: Caller, row: Execution) -> None:
    make_artifact(row, b"one" * 100_000)
    make_artifact(row, b"two", artifact_id="b", attempt=2, path="../../evil.txt")
    make_artifact(row, b"three", artifact_id="c", attempt=2, path="Evil.txt")
    make_artifact(row, b"gone", artifact_id="d", expired_at=clock.now())

    answer = ada.get(f"executions/{row.run_id}/artifacts/archive")

    assert answer["Content-Type"] == "application/zip"
    name = f"{row.run_id}-artifacts.zip"
    assert answer["Content-Disposition"] == f'attachment; filename="{name}"'
    assert answer["Content-Security-Policy"] == "sandbox"
    assert unpacked(answer) == {
        "check/1/out/report.txt": b"one" * 100_000,
        "check/2/evil.txt": b"two",
        "check/2/Evil (2).txt": b"three",
    }


@pytest.mark.django_db(transaction=True)
def test_the_archive_of_no_artifacts_is_an_empty_zip(ada: Caller, row: Execution) -> None:
    assert unpacked(ada.get(f"executions/{row.run_id}/artifacts/archive")) == {}


def test_an_unknown_parameter_of_the_archive_is_refused(ada: Caller, row: Execution) -> None:
    answer = ada.get(f"executions/{row.run_id}/artifacts/archive?format=tar")

    assert problem(answer) == (400, "unknown_parameter")


def test_an_image_has_the_type_of_its_bytes_and_cannot_act(ada: Caller, row: Execution) -> None:
    make_artifact(row, PNG, media_type="text/html", path="page.html")

    answer = ada.get(f"executions/{row.run_id}/artifacts/check-report-raw/image")

    assert (answer.status_code, answer.content) == (200, PNG)
    assert answer["Content-Type"] == "image/png"
    assert answer["Content-Disposition"].startswith("inline")
    assert answer["Content-Security-Policy"] == "sandbox"
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("body", [b"<svg onload='alert(1)'/>", b"<html>", b"GIF", b""])
def test_what_is_no_image_by_its_bytes_is_not_shown(
    ada: Caller, row: Execution, body: bytes
) -> None:
    make_artifact(row, body, media_type="image/png", path="x.png")

    answer = ada.get(f"executions/{row.run_id}/artifacts/check-report-raw/image")

    assert problem(answer) == (404, "artifact_not_found")


def test_the_detail_names_images_and_expired_files(ada: Caller, row: Execution) -> None:
    make_artifact(row, PNG)
    make_artifact(row, b"text", artifact_id="b", expired_at=clock.now())

    image, expired = ada.get(f"executions/{row.run_id}").json()["artifacts"]

    assert image["imageType"] == "image/png"
    assert "content" not in image
    assert "expiredAt" in expired
    assert "content" not in expired


@pytest.mark.parametrize("part", ["", "/image"])
def test_an_expired_file_is_gone(ada: Caller, row: Execution, part: str) -> None:
    make_artifact(row, PNG)
    Artifact.objects.update(expired_at=clock.now())

    answer = ada.get(f"executions/{row.run_id}/artifacts/check-report-raw{part}")

    assert problem(answer) == (410, "artifact_expired")
    assert answer.json()["detail"] == ("the file was removed after the retention time of artifacts")
