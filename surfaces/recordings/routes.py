"""The template of a recorded path: segments that look like identifiers become parameters.

Only what is certain: a number, a UUID, a long hexadecimal or mixed text. Other segments stay, since
an operation too many is easier to see than one that answers for two.
"""

from __future__ import annotations

import re
from typing import Final

from kernel.redaction import MASK
from surfaces.recordings.calls import Pairs, decode_segment, free_name

_IDENTIFIER: Final = re.compile(
    r"\d{1,40}"
    r"|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{16,128}"
    r"|(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z]{0,8}_?[A-Za-z0-9]{14,128}"
)
_PLURALS: Final = (("ies", "y"), ("sses", "ss"), ("s", ""))
_WORD: Final = re.compile(r"[^A-Za-z0-9]+(.)?")


def guess_template(path: str) -> tuple[str, Pairs]:
    """Return the template of a path, and the values of its parameters."""
    made: list[str] = []
    params: dict[str, str] = {}
    before = ""
    for segment in path.strip("/").split("/"):
        text = decode_segment(segment)
        if not (_IDENTIFIER.fullmatch(text) or MASK in text):
            made.append(segment.replace("{", "%7B").replace("}", "%7D"))
            before = text
            continue
        name = free_name(_parameter_name(before), params, joint="")
        params[name] = text
        made.append(f"{{{name}}}")
    known = tuple((name, value) for name, value in params.items() if MASK not in value)
    return "/" + "/".join(made), known


def _parameter_name(before: str) -> str:
    """Return `orderId` after `orders`, `id` at the beginning."""
    word = _WORD.sub(lambda found: (found[1] or "").upper(), before)
    for plural, singular in _PLURALS:
        if word.endswith(plural) and len(word) > len(plural) + 1 and not word.endswith("ss"):
            word = word[: -len(plural)] + singular
            break
    return f"{word[0].lower()}{word[1:40]}Id" if word[:1].isalpha() else "id"
