"""Artifacts as files of an archive, and what their first bytes say.

Pure (reference: control-plane 11.11).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

INLINE_BYTES: Final = 64 * 2**10
HEAD_BYTES: Final = 16
_SIGNATURES: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)
# what Windows refuses in a name, controls, and code points that are no characters
_UNSAFE: Final = re.compile('[<>:"|?*\\\\\x00-\x1f\x7f\ud800-\udfff]')
_RESERVED: Final = re.compile(r"^(con|prn|aux|nul|com\d|lpt\d)(\.|\Z)", re.IGNORECASE)
_PART_MAX: Final = 100  # characters: at most 400 bytes, of 65,535 that a name in a zip has
_PARTS_MAX: Final = 20


def image_type(head: bytes) -> str:
    """Return the media type of an image that pages may show, by its first bytes; else "".

    An SVG is none: it is a document that can hold scripts.
    """
    return next((type_ for pattern, type_ in _SIGNATURES if pattern.match(head)), "")


def head_of(body: bytes) -> bytes:
    """Return what lists show of a file: the first 64 KiB of a text, else what tells its type."""
    return body[:HEAD_BYTES] if head_text(body, len(body)) is None else body[:INLINE_BYTES]


def head_text(head: bytes, size: int) -> str | None:
    """Return the characters of the first 64 KiB of a file of `size` bytes.

    None unless they are UTF-8 without NUL, or if `head` has less than that.
    """
    if len(head) < min(size, INLINE_BYTES):
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(head[:INLINE_BYTES], final=size <= INLINE_BYTES)
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def archive_names(files: Iterable[tuple[str, int, str]]) -> list[str]:
    """Return the names in an archive of (step id, attempt, path), `<step>/<attempt>/<path>`.

    They stay below the folder that they are unpacked into, also on Windows, and differ in more than
    upper and lower case.
    """
    taken: set[str] = set()
    return [_free_name("/".join(_parts(*file)), taken) for file in files]


def _parts(step_id: str, attempt: int, path: str) -> list[str]:
    own = [_safe_part(part) for part in path.replace("\\", "/").split("/")]
    named = [part for part in own if part] or ["file"]
    step = [part for part in map(_safe_part, step_id.split("/")) if part] or ["step"]
    return [*step[-_PARTS_MAX:], str(attempt), *named[-_PARTS_MAX:]]


def _safe_part(part: str) -> str:
    """Return a part of a path that means no other folder; "" for one that means none."""
    name = _UNSAFE.sub("_", part).rstrip(" .")[-_PART_MAX:]
    return f"_{name}" if _RESERVED.match(name) else name


def _free_name(name: str, taken: set[str]) -> str:
    path, number, free = PurePosixPath(name), 1, name
    while free.casefold() in taken:
        number += 1
        free = str(path.with_name(f"{path.stem} ({number}){path.suffix}"))
    taken.add(free.casefold())
    return free
