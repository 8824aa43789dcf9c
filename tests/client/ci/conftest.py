"""A job of GitHub Actions and the server that it launches on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ci_job import GitHubJob, ScriptedServer, scripted_server


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as served:
        yield served


@pytest.fixture
def job(tmp_path: Path, server: ScriptedServer) -> GitHubJob:
    folder = tmp_path / "job"
    folder.mkdir()
    return GitHubJob(folder, server)
