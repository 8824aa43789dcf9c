"""The files of a suite on their way into a container."""

from __future__ import annotations

import io
import tarfile

import pytest

from tests.support.steps import content
from worker.domain.exports import SUITE_FILE_MTIME
from worker.runtimes.docker.container_spec import step_archive, workspace_archive


def test_files_keep_their_folders():
    with tarfile.open(fileobj=io.BytesIO(workspace_archive(content({"a/b/c.sh": "x"})))) as archive:
        names = archive.getnames()

    root = "partita/workspace"
    assert names == [root, f"{root}/a", f"{root}/a/b", f"{root}/a/b/c.sh"]


@pytest.mark.parametrize("name", ["../out", "a/../../out", "a/..", "/etc/passwd"])
def test_a_name_that_leads_out_of_the_workspace_is_refused(name: str):
    """Invariant 24."""
    for build in (workspace_archive, step_archive):
        with pytest.raises(ValueError, match="is not a path inside a suite"):
            build(content({name: "x"}))


@pytest.mark.parametrize("files", [{}, {"a/b.sh": "x"}])
def test_a_step_gets_its_directories_and_files_that_count_as_unwritten(files: dict[str, str]):
    archive = step_archive(content(files) if files else b"")
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        members = {member.name: member for member in opened}

    folders = {"partita/artifacts", "partita/step"}
    assert {name for name, member in members.items() if member.isdir()} >= folders
    assert all(members[folder].mode == 0o777 for folder in folders)
    assert {member.mtime for member in members.values() if member.isfile()} <= {SUITE_FILE_MTIME}
    assert len([member for member in members.values() if member.isfile()]) == len(files)
