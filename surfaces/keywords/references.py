"""What a `$ref` leads to, within a document and between the files of a suite."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice
from typing import Final
from urllib.parse import unquote

from readers.diagnostics import nearest_name
from readers.json import unescape_pointer
from readers.tree import Tree
from surfaces.trees import NOTHING, child

_MAX_COMPARED: Final = 500
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class ReferenceTarget:
    """The value that a reference leads to, with its file and pointer, or why it leads nowhere."""

    tree: Tree = NOTHING
    file: str = ""
    parts: tuple[str, ...] = ()
    reason: str = ""


Targets = Callable[[str, str], ReferenceTarget | None]  # of a reference that stands in a file


def target_of(
    reference: str, file: str, files: Collection[str], read: Callable[[str], Tree]
) -> ReferenceTarget | None:
    """Return what a reference in a file leads to, None where that cannot be told.

    `read` returns documents of `files`.
    """
    shown = reference[:_SHOWN]
    named, _, pointer = reference.partition("#")
    if "://" in named:
        return ReferenceTarget(reason=f'"{shown}" is not read: only files of the suite are')
    if named:
        file = posixpath.normpath(posixpath.join(posixpath.dirname(file), unquote(named)))
        if file not in files:
            near = nearest_name(file, islice(files, _MAX_COMPARED), least=0.8)
            advice = f"; did you mean {posixpath.basename(near)}?" if near else ""
            return ReferenceTarget(reason=f'"{shown}" leads to no file of the suite{advice}')
    tree = read(file)
    if tree is NOTHING or (pointer and not pointer.startswith("/")):  # unreadable, or an anchor
        return None
    parts = tuple(unescape_pointer(unquote(each)) for each in pointer.split("/")[1:])
    for part in parts:
        below = child(tree, part)
        if below is None:
            near = nearest_name(part, islice(tree.pairs, _MAX_COMPARED), least=0.7)
            advice = f"; did you mean {near}?" if near else ""
            return ReferenceTarget(reason=f'"{shown}" leads to nothing{advice}')
        tree = below
    return ReferenceTarget(tree, file, parts)
