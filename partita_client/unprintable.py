"""The characters of foreign text that are printed nowhere: one table for terminals and reports."""

from __future__ import annotations

import re
from typing import Final

# control characters, marks that turn the direction of text, ends of lines that few know, and halves
# of letters, which no encoding has; tabs and ends of lines stay
UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
