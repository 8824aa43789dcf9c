"""The files that the guides under docs/guides tell the reader to write."""

from __future__ import annotations

import re
from pathlib import Path

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"


def file_of(guide: str, path: str) -> str:
    """The text of the file that a guide introduces with "This is `path`:"."""
    text = (GUIDES / guide).read_text()
    found = re.search(rf"This is `{re.escape(path)}`:\n\n```python\n(.*?)^```$", text, re.S | re.M)
    assert found, f"{guide} has no {path}"
    return found[1]
