"""Archives are packed the same each time and read back; what is hostile is in tests/apps/oci."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers.archive import ArchiveLimits, ArchiveRefused, content_digest, pack, unpack
from tests.support.files import write_files

FILES = {
    "suite.star": b"# a suite\n",
    "tasks/seed.sh": b"#!/bin/sh\n",
    "a" * 90 + "/" + "b" * 90 + "/ü.txt": "ü".encode(),
}
_TEXT = st.text(max_size=50).filter(lambda text: "\0" not in text)
_NAME = st.from_regex(r"[a-zäß0-9_][a-zäß0-9._ -]{0,12}", fullmatch=True)


def test_equal_files_give_equal_bytes():
    assert pack(FILES) == pack(dict(reversed(FILES.items())))


def test_the_bytes_are_those_of_stored_snapshots():
    """They are found by the digest of their archive: other bytes would store each suite again."""
    whole = pack({"suite.star": b"# a suite\n", "run.sh": b"#!/bin/sh\n"})

    assert gzip.decompress(whole)[:6] == b"run.sh"
    assert gzip.decompress(whole)[100:107] == b"0000755"
    assert whole[4:8] == bytes(4)  # no time
    assert len(gzip.decompress(whole)) == 10240


@settings(max_examples=50)
@given(
    st.dictionaries(_NAME, st.text(max_size=50).filter(lambda text: "\0" not in text), max_size=8)
)
def test_what_is_packed_is_unpacked(texts: dict[str, str]):
    files = {name: text.encode() for name, text in texts.items()}

    assert unpack(pack(files)) == files


@pytest.mark.parametrize("form", ["gnu", "pax", "ustar"])
def test_archives_of_tar_are_read(tmp_path: Path, form: str):
    write_files(tmp_path, FILES)
    (tmp_path / ".hidden").write_bytes(b"x")
    command = ["tar", "-cz", f"--format={form}", "-C", str(tmp_path), "."]
    made = subprocess.run(command, check=True, capture_output=True).stdout

    assert unpack(made) == FILES


def test_one_common_top_folder_is_stripped():
    assert unpack(pack({f"shop-1.0/{path}": content for path, content in FILES.items()})) == FILES
    assert set(unpack(pack({"a/x": b"", "b/y": b""}))) == {"a/x", "b/y"}


@settings(max_examples=200)
@given(st.binary(max_size=400), st.integers(0, 10_000), st.binary(min_size=1, max_size=8))
def test_any_bytes_are_an_archive_or_refused(noise: bytes, at: int, change: bytes):
    whole = pack(FILES)
    raw = gzip.decompress(whole)
    for data in (
        noise,
        whole[: at % len(whole)] + change + whole[at % len(whole) + len(change) :],
        gzip.compress(raw[:at] + change + raw[at + len(change) :]),
    ):
        assert is_read_or_refused(data)


def is_read_or_refused(data: bytes) -> bool:
    try:
        unpack(data)
    except ArchiveRefused as error:
        return bool(error.code) and len(str(error)) < 500
    return True


def test_the_limits_are_those_that_are_given():
    with pytest.raises(ArchiveRefused) as caught:
        unpack(pack({"a": b"123", "b": b"456"}), limits=ArchiveLimits(extracted=5))

    assert caught.value.code == "extracted_too_large"


def test_the_digest_of_contents_does_not_depend_on_their_order():
    assert content_digest({"b": b"2", "a": b"1"}) == content_digest({"a": b"1", "b": b"2"})
    assert content_digest({"a": b"12"}) != content_digest({"a": b"1", "b": b"2"})
