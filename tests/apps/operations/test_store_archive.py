"""Archives from outside: whatever is wrong with one is refused before a row of it is used."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.operations.domain.store_archive import (
    MANIFEST,
    ArchiveInvalid,
    ArchiveReader,
    ArchiveWriter,
    BackupManifest,
    encode_row,
)

ROWS = [{"id": number, "text": "é\n" * number} for number in range(50)]
MEMBER = "tables/demo.Thing.jsonl"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "store.backup"
    with path.open("wb") as file:
        writer = ArchiveWriter(file)
        table = writer.write_table("demo.Thing", (encode_row(row) for row in ROWS))
        writer.close(
            BackupManifest(
                created_at="2026-01-02T03:04:05.000Z",
                partita="0.1.0",
                store="sqlite",
                installation="",
                migrations={"demo": ("0001_initial",)},
                tables=(table,),
                keys=("0123456789abcdef",),
            )
        )
    return path


def rewrite(path: Path, change: Callable[[dict[str, bytes]], object]) -> None:
    """Write the archive anew with members that `change` has changed."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in members.items():
            new.writestr(name, content)


def change_manifest(path: Path, **values: Any) -> None:
    def change(members: dict[str, bytes]) -> None:
        members[MANIFEST] = json.dumps(json.loads(members[MANIFEST]) | values).encode()

    rewrite(path, change)


def refusal(path: Path, **limits: int) -> str:
    with pytest.raises(ArchiveInvalid) as refused:
        list(ArchiveReader(path, **limits).verify())
    assert str(path) in refused.value.detail
    return refused.value.detail


def test_rows_come_back_as_they_were(archive: Path):
    reader = ArchiveReader(archive)
    (table,) = reader.verify()

    rows = [
        reader.decode(table, number, line)
        for number, line in enumerate(reader.lines(table), start=1)
    ]

    assert rows == ROWS
    assert (table.rows, reader.manifest.keys) == (50, ("0123456789abcdef",))


def test_a_changed_row_is_found_by_its_hash(archive: Path):
    def change(members: dict[str, bytes]) -> None:
        members[MEMBER] = members[MEMBER].replace(b'"id":7,', b'"id":8,')

    rewrite(archive, change)

    assert "SHA-256" in refusal(archive)


def test_a_hash_of_the_manifest_that_is_wrong_is_found(archive: Path):
    table = {"model": "demo.Thing", "rows": 50, "sha256": "0" * 64}
    with zipfile.ZipFile(archive) as members:
        table["bytes"] = members.getinfo(MEMBER).file_size
    change_manifest(archive, tables=[table])

    assert f"the manifest says {'0' * 64}" in refusal(archive)


def test_a_table_with_other_counts_is_refused(archive: Path):
    reader = ArchiveReader(archive)
    (table,) = reader.manifest.tables
    entry = {"model": table.model, "rows": 49, "bytes": table.bytes, "sha256": table.sha256}
    change_manifest(archive, tables=[entry])

    assert "50 rows" in refusal(archive)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_archive_is_refused(archive: Path, part: float):
    content = archive.read_bytes()
    archive.write_bytes(content[: int(len(content) * part)])

    assert "not a complete archive" in refusal(archive)


def test_damaged_bytes_are_refused(archive: Path):
    content = bytearray(archive.read_bytes())
    start = 30 + len(MEMBER) + struct.unpack("<H", content[28:30])[0]
    content[start + 20 : start + 60] = bytes(40)
    archive.write_bytes(content)

    assert "is damaged" in refusal(archive)


@pytest.mark.parametrize(
    "name", ["../../etc/cron.d/evil", "/etc/passwd", "tables/../../x", "tables/demo.Other.jsonl"]
)
def test_a_member_that_the_manifest_does_not_name_is_refused(archive: Path, name: str):
    rewrite(archive, lambda members: members.update({name: b"* * * * * root true\n"}))

    assert f"the member {name!r} is not in the manifest" in refusal(archive)


def test_a_model_named_like_a_path_reaches_no_file(archive: Path):
    entry = {"model": "../../../etc/passwd", "rows": 0, "bytes": 0, "sha256": ""}
    change_manifest(archive, tables=[entry])

    assert "is not in the manifest" in refusal(archive)


def test_a_member_that_is_there_twice_is_refused(archive: Path):
    with zipfile.ZipFile(archive, "a") as members, pytest.warns(UserWarning, match="Duplicate"):
        members.writestr(MEMBER, b"{}\n")

    assert "is there twice" in refusal(archive)


def test_a_missing_table_is_refused(archive: Path):
    rewrite(archive, lambda members: members.pop(MEMBER))

    assert f"the member '{MEMBER}' is missing" in refusal(archive)


def test_a_zip_bomb_is_refused_before_it_is_read(archive: Path):
    size = 3 * 2**20
    rewrite(archive, lambda members: members.update({MEMBER: bytes(size)}))
    change_manifest(
        archive, tables=[{"model": "demo.Thing", "rows": 1, "bytes": size, "sha256": "0" * 64}]
    )

    said = refusal(archive, max_bytes=2**20)

    assert f"expand to {size} bytes, more than {2**20}" in said
    assert f"--max-bytes {size}" in said


def test_a_member_larger_than_the_manifest_says_is_refused(archive: Path):
    rewrite(archive, lambda members: members.update({MEMBER: bytes(2**20)}))

    assert f"has {2**20} bytes, the manifest says" in refusal(archive)


def test_a_row_without_an_end_is_refused_and_not_held_in_memory(
    archive: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("apps.operations.domain.store_archive.MAX_ROW_BYTES", 1000)
    rewrite(archive, lambda members: members.update({MEMBER: b"x" * 5000}))
    change_manifest(
        archive, tables=[{"model": "demo.Thing", "rows": 1, "bytes": 5000, "sha256": "0" * 64}]
    )

    assert "a row has more than 1000 bytes" in refusal(archive)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"format": "other"}, "format is 'other'"),
        ({"formatVersion": 2}, "this release reads 1"),
        ({"tables": 3}, "manifest.json"),
        ({"migrations": ["x"]}, "manifest.json"),
        ({"tables": [{"model": "x"}]}, "manifest.json"),
    ],
)
def test_a_manifest_of_another_shape_is_refused(archive: Path, values: Any, words: str):
    change_manifest(archive, **values)

    assert words in refusal(archive)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"[]", b"\xff", b"null"])
def test_a_manifest_that_is_no_document_is_refused(archive: Path, content: bytes):
    rewrite(archive, lambda members: members.update({MANIFEST: content}))

    assert "manifest.json" in refusal(archive)


def test_a_file_that_is_something_else_is_refused(tmp_path: Path):
    other = tmp_path / "partita.sqlite3"
    other.write_bytes(b"SQLite format 3\0" + bytes(5000))

    assert "not a complete archive" in refusal(other)


@pytest.mark.parametrize("line", [b"[1]\n", b"{\n", b"[" * 100_000, b"\xff\n", b"1\n"])
def test_a_row_that_is_no_object_is_refused(archive: Path, line: bytes):
    reader = ArchiveReader(archive)

    with pytest.raises(ArchiveInvalid, match="line 3: expected a JSON object"):
        reader.decode(reader.manifest.tables[0], 3, line)
