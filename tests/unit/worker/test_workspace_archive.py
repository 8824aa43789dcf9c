"""The files of a suite on their way into a container."""

from __future__ import annotations

import io
import tarfile

import pytest

from tests.support.steps import content
from worker.runtimes.docker.container_spec import workspace_archive


def test_files_keep_their_folders():
    with tarfile.open(fileobj=io.BytesIO(workspace_archive(content({"a/b/c.sh": "x"})))) as archive:
        names = archive.getnames()

    root = "partita/workspace"
    assert names == [root, f"{root}/a", f"{root}/a/b", f"{root}/a/b/c.sh"]


@pytest.mark.parametrize("name", ["../out", "a/../../out", "a/..", "/etc/passwd"])
def test_a_name_that_leads_out_of_the_workspace_is_refused(name: str):
    """Invariant 24."""
    with pytest.raises(ValueError, match="is not a path inside a suite"):
        workspace_archive(content({name: "x"}))
