"""The files of a suite on their way into a container."""

from __future__ import annotations

import io
import tarfile

import pytest

from tests.support.steps import content
from worker.domain.archives import step_archive
from worker.domain.exports import SUITE_FILE_MTIME


def test_files_keep_their_folders_in_the_directory_of_the_step_and_in_the_shared_one():
    files = content({"a/b/c.sh": "x"})
    with tarfile.open(fileobj=io.BytesIO(step_archive(files, shared=files))) as archive:
        names = archive.getnames()

    for root in ("partita/step", "partita/workspace"):
        below = [name for name in names if name.startswith(root)]
        assert below == [root, f"{root}/a", f"{root}/a/b", f"{root}/a/b/c.sh"]


@pytest.mark.parametrize("name", ["../out", "a/../../out", "a/..", "/etc/passwd"])
def test_a_name_that_leads_out_of_the_workspace_is_refused(name: str):
    """Invariant 24."""
    outside = content({name: "x"})
    for files, shared in ((outside, None), (b"", outside)):
        with pytest.raises(ValueError, match="is not a path inside a suite"):
            step_archive(files, shared=shared)


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
