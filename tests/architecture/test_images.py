"""The pictures of the documents: each is shown, described and small."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.sources import ROOT
from tests.support.documents import documents

IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 145_000  # of a picture; `make pictures` takes none beyond 120,000
MOST_BYTES_OF_ALL = 2_000_000
_SHOWN = re.compile(r"!\[([^\]]*)\]\(([^()\s]+)\)")


def shown_pictures() -> list[tuple[Path, str]]:
    """(file, description) of each picture that a document shows."""
    return [
        ((path.parent / target).resolve(), words)
        for path in documents()
        for words, target in _SHOWN.findall(path.read_text())
    ]


def test_each_picture_is_shown_with_a_description() -> None:
    assert {path for path, _words in shown_pictures()} == set(IMAGES.iterdir())
    assert all(len(words) > 10 for _path, words in shown_pictures())


def test_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in IMAGES.iterdir()}

    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}
    assert sum(sizes.values()) <= MOST_BYTES_OF_ALL
