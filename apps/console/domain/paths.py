"""Where a page may send its reader."""

from __future__ import annotations

from urllib.parse import urlsplit


def same_site(path: str, *, otherwise: str = "/") -> str:
    r"""`path` when it is one of this site, else `otherwise`.

    Refused: other origins, `//host`, `/\host`, control characters (browsers drop tabs and
    newlines, so `/\t/host` would become `//host`).
    """
    if not path.startswith("/") or path[1:2] in ("/", "\\"):
        return otherwise
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in path):  # noqa: PLR2004
        return otherwise
    parts = urlsplit(path)
    return otherwise if parts.scheme or parts.netloc else path
