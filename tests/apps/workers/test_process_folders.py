"""The runtime of child processes, while folders of other steps come and go."""

from __future__ import annotations

import contextlib
import io
import shutil
import tarfile
import threading
from pathlib import Path

import pytest

from tests.support import steps
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.process.runtime import ProcessRuntime
from worker.runtimes.process.units import UnitFolder, fill_workspace, make_empty_workspace

ROUNDS = 300


@pytest.mark.slow
async def test_steps_that_are_removed_meanwhile_are_passed_over(tmp_path: Path):
    """A step of the same run that ends in this moment is no error of the one that begins."""
    runtime = ProcessRuntime(RuntimeOptions(state_dir=tmp_path, installation_id=steps.INSTALLATION))
    churn = threading.Thread(target=_come_and_go, args=(tmp_path / "process" / "runs",))

    churn.start()
    looks = 0
    while churn.is_alive():
        assert await runtime.find(steps.owner()) == []
        looks += 1
    await runtime.close()

    assert looks > 1


def _come_and_go(root: Path) -> None:
    for number in range(ROUNDS):
        folder = UnitFolder(root / "run-0123456789ab" / "units" / f"step-{number % 5}")
        folder.make({"partita.managed": "true"}, "workspace", b"")
        shutil.rmtree(root / "run-0123456789ab")


@pytest.mark.parametrize("files_came_later", [False, True])
@pytest.mark.parametrize(
    "members",
    [
        [("../out.txt", "")],
        [("a/../../out.txt", "")],
        [("up", ".."), ("up/out.txt", "")],
    ],
    ids=["parent", "parent of a folder", "link"],
)
def test_files_are_unpacked_in_their_workspace_only(
    tmp_path: Path, members: list[tuple[str, str]], files_came_later: bool
):
    """Invariant 24."""
    path = tmp_path / "run" / "workspaces" / "suite"
    if files_came_later:
        make_empty_workspace(path)

    with contextlib.suppress(ValueError):
        fill_workspace(path, _packed(members))

    scratch = path.parent.glob(".suite-*")
    inside = (path, *scratch)
    found = [
        file for file in tmp_path.rglob("out.txt") if not any(map(file.is_relative_to, inside))
    ]
    assert found == []


def test_files_of_a_step_are_unpacked_in_its_directory_only(tmp_path: Path):
    """Invariant 24."""
    folder = UnitFolder(tmp_path / "run" / "units" / "step")

    with pytest.raises(ValueError, match="not a path inside a suite"):
        folder.make({}, "workspace", _packed([("a.txt", ""), ("../../out.txt", "")]))

    assert list(tmp_path.rglob("out.txt")) == []
    assert not (folder.path / "unit.json").exists()


def test_an_absolute_name_is_refused(tmp_path: Path):
    """Invariant 24."""
    path = tmp_path / "run" / "workspaces" / "suite"

    with pytest.raises(ValueError, match="not a path inside a suite"):
        fill_workspace(path, _packed([(f"{tmp_path}/out.txt", "")]))

    assert list(tmp_path.rglob("*.txt")) == []


def _packed(members: list[tuple[str, str]]) -> bytes:
    """A tar+gzip of files, and of links for members with a target."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, target in members:
            info = tarfile.TarInfo(name)
            if target:
                info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return out.getvalue()
