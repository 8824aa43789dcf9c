"""Files of a suite on this machine: what is written, and what no archive can do."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from worker.runtimes.process.suite_files import write_suite_files


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def member(name: str, content: bytes = b"x", **facts: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    for key, value in facts.items():
        setattr(info, key, value)
    return info, content


def test_files_have_their_folders_times_and_the_bits_that_they_may_have(tmp_path: Path):
    content = packed(
        member("tests/deep/run.sh", b"#!/bin/sh", mode=0o4777, mtime=100), member("a.txt", b"a")
    )

    write_suite_files(content, tmp_path)

    script = tmp_path / "tests/deep/run.sh"
    assert (script.read_bytes(), script.stat().st_mode & 0o7777) == (b"#!/bin/sh", 0o755)
    assert script.stat().st_mtime == 100
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644


def test_a_given_time_replaces_that_of_each_file(tmp_path: Path):
    write_suite_files(packed(member("a.txt", mtime=100)), tmp_path, mtime=7)

    assert (tmp_path / "a.txt").stat().st_mtime == 7


def test_of_several_archives_the_later_wins(tmp_path: Path):
    first, second = packed(member("a", b"1", mode=0o400)), packed(member("a", b"2"))

    write_suite_files(first + second, tmp_path)

    assert (tmp_path / "a").read_bytes() == b"2"


@pytest.mark.parametrize("name", ["../a", "/etc/a", "b/../../a"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str):
    folder = tmp_path / "in"
    folder.mkdir()

    with pytest.raises(ValueError, match="not a path inside a suite"):
        write_suite_files(packed(member(name)), folder)

    assert list(tmp_path.iterdir()) == [folder]


def test_links_and_devices_are_left_out(tmp_path: Path):
    content = packed(
        member("link", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("hard", b"", type=tarfile.LNKTYPE, linkname="a"),
        member("device", b"", type=tarfile.CHRTYPE),
        member("a"),
    )

    write_suite_files(content, tmp_path)

    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_link_that_a_step_left_is_neither_followed_nor_written_through(tmp_path: Path):
    folder, outside = tmp_path / "in", tmp_path / "out"
    for each in (folder, outside):
        each.mkdir()
    (outside / "kept").write_text("kept")
    (folder / "a").symlink_to(outside / "kept")
    (folder / "tests").symlink_to(outside)

    with pytest.raises(ValueError, match="by a link"):
        write_suite_files(packed(member("a", b"new"), member("tests/kept", b"new")), folder)

    assert (folder / "a").read_bytes() == b"new"
    assert (outside / "kept").read_text() == "kept"
    assert [each.name for each in outside.iterdir()] == ["kept"]


def test_pythons_without_filters_of_tarfile_write_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(tarfile, "data_filter")
    monkeypatch.delattr(tarfile.TarFile, "extractall")

    write_suite_files(packed(member("a")), tmp_path)

    assert (tmp_path / "a").exists()
