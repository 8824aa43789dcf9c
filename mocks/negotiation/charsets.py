"""Texts in the charset that a media type names."""

from __future__ import annotations

import codecs
from typing import Final

import re2

_CHARSET: Final = re2.compile(r'(?i);\s*charset\s*=\s*"?([a-z0-9._:-]{1,40})')
# what Python has under these names encodes texts; other codecs compress or quote them
_TEXTS: Final = re2.compile(
    r"utf-?(16|32).*|iso8859-\d+|latin.*|cp\d+|koi8-.|ascii|gb.*|big5.*|shift_jis.*|euc_.*|mac-.*"
)


def charset_of(media_type: str) -> str:
    """Return the charset that Python has and that is not UTF-8, "" otherwise."""
    found = _CHARSET.search(media_type) if media_type else None
    if found is None:
        return ""
    try:
        name = codecs.lookup(found[1]).name
    except LookupError:
        return ""
    return name if _TEXTS.fullmatch(name) else ""


def recode(body: bytes, charset: str) -> bytes:
    """Return a text in UTF-8 in another charset; what is not in it becomes `?`."""
    return body.decode(errors="replace").encode(charset, errors="replace")
