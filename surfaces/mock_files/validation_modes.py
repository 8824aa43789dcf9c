"""What files say of more than one operation: how calls are checked, and how many may come.

metadata.yaml has `mocks: {validate: enforce}`, flat or in `spec`, and a file
`mock/**/*.metadata.yaml` of `kind: MockSurface` has `spec: {validate: …, rateLimit: …}` for its
surface.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from readers import Unreadable
from readers.diagnostics import nearest_advice
from readers.tree import Kind, Tree
from surfaces.behaviors import CallLimit
from surfaces.contracts import Sources
from surfaces.mock_files.behaviors import read_rate_limit
from surfaces.mock_files.exchanges import mock_tree
from surfaces.mock_files.metadata_keys import UNKNOWN_KEY, unknown_surface_keys
from surfaces.model import VALIDATE_MODES, ValidateMode
from surfaces.trees import Warnings, member, nonblank_member, text_of

SUITE_FILES: Final = ("metadata.yaml", "metadata.yml")
_KIND: Final = "mocksurface"
_INVALID: Final = "mock_metadata_invalid"


def read_mode(value: Tree | None, path: str, warnings: Warnings) -> ValidateMode | None:
    """Return a mode, None where a file says nothing; another word is a warning."""
    if value is None:
        return None
    word = text_of(value).strip().lower()
    if word in VALIDATE_MODES:
        return cast("ValidateMode", word)
    shown = word[:40] if value.kind is not Kind.MAP else "…"
    detail = f'the mode "{shown}" of validate is not known; {nearest_advice(word, VALIDATE_MODES)}'
    warnings.add("unknown_value", detail, path, value)
    return None


def suite_mode(sources: Sources) -> ValidateMode | None:
    """Return the mode of metadata.yaml; what else is wrong there is told with the suite."""
    path = next((each for each in SUITE_FILES if each in sources.files), None)
    if path is None:
        return None
    document = sources.tree(path, _INVALID)
    for owner in (document, member(document, "spec")):
        if (mocks := member(owner, "mocks")) is not None:
            return read_mode(nonblank_member(mocks, "validate"), path, sources.warnings)
    return None


def is_surface(path: str, sources: Sources) -> bool:
    """Return whether a metadata file is one of a surface, and of no operation."""
    document = mock_tree(path, sources, _INVALID)
    return text_of(member(document, "kind")).strip().lower() == _KIND


@dataclass(frozen=True, slots=True)
class SurfaceRules:
    """What a file of a surface says of all its operations."""

    validate: ValidateMode | None = None
    rate_limit: CallLimit | None = None


def read_surface(path: str, sources: Sources) -> tuple[str, SurfaceRules]:
    """Return the surface that a file of a surface names, "" for none, and its rules."""
    document = mock_tree(path, sources, _INVALID)
    for reason, at in unknown_surface_keys(document):
        sources.warnings.add(UNKNOWN_KEY, reason, path, at)
    named = text_of(member(member(document, "metadata"), "surface"))
    spec = member(document, "spec")
    limit = nonblank_member(spec, "rateLimit")
    rate_limit = None
    try:
        rate_limit = None if limit is None else read_rate_limit(limit)
    except Unreadable as error:
        sources.warnings.add_unreadable(_INVALID, path, error)
    mode = read_mode(nonblank_member(spec, "validate"), path, sources.warnings)
    return named, SurfaceRules(mode, rate_limit)
