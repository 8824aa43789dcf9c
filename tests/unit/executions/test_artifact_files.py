"""What first bytes say, and names in an archive that stay in their folder."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.executions.domain.artifact_files import archive_names, image_type


@pytest.mark.parametrize(
    ("head", "type_"),
    [
        (b"\x89PNG\r\n\x1a\nrest", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"GIF87a", "image/gif"),
        (b"RIFF\x0a\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x0a\x00\x00\x00WAVE", ""),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", ""),
        (b"<html>\x89PNG\r\n\x1a\n", ""),
        (b"", ""),
    ],
)
def test_the_bytes_say_what_is_an_image(head: bytes, type_: str) -> None:
    assert image_type(head) == type_


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (("check", 1, "out/report.xml"), "check/1/out/report.xml"),
        (("shop/check", 2, "/partita/artifacts/a.txt"), "shop/check/2/partita/artifacts/a.txt"),
        (("a", 1, "../../etc/passwd"), "a/1/etc/passwd"),
        (("a", 1, "..\\..\\boot.ini"), "a/1/boot.ini"),
        (("..", 1, ".."), "step/1/file"),
        (("a", 1, "c:evil\x00\n.txt"), "a/1/c_evil__.txt"),
        (("a", 1, "NUL.txt"), "a/1/_NUL.txt"),
        (("a", 1, "dir/"), "a/1/dir"),
        (("a", 1, "ü.txt"), "a/1/ü.txt"),
    ],
)
def test_a_name_has_step_attempt_and_path(file: tuple[str, int, str], name: str) -> None:
    assert archive_names([file]) == [name]


def test_equal_names_are_numbered() -> None:
    files = [("a", 1, "x.txt"), ("a", 1, "X.txt"), ("a", 1, "x (2).txt"), ("a", 2, "x.txt")]

    assert archive_names(files) == ["a/1/x.txt", "a/1/X (2).txt", "a/1/x (2) (2).txt", "a/2/x.txt"]


@given(st.lists(st.tuples(st.text(max_size=20), st.integers(1, 3), st.text(max_size=60))))
def test_whatever_the_paths_names_are_safe_and_differ(files: list[tuple[str, int, str]]) -> None:
    names = archive_names(files)

    assert len({name.casefold() for name in names}) == len(files)
    for name in names:
        assert not PurePosixPath(name).is_absolute()
        assert not PureWindowsPath(name).drive
        assert ".." not in PureWindowsPath(name).parts
        name.encode()
