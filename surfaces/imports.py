"""A file from elsewhere as files of a suite: a contract into api/, recorded calls into mock/.

    found = imported("petstore.yaml", content, beside)      # raises Unreadable
    found.files                                             # path in the suite -> content

`beside(path)` returns a file that a contract refers to, by its path from its folder.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from kernel.errors import FileWarning
from kernel.ids import slug
from readers import Unreadable
from readers.json import read_json, refuse_bad_strings
from surfaces.hydration import surfaces_of
from surfaces.recordings import Recording, calls_of_har, calls_of_postman, mock_files
from surfaces.recordings.har import is_har
from surfaces.recordings.postman import is_postman
from surfaces.trees import MAX_DOCUMENT, read_tree, without_comments

MAX_RECORDING: Final = 64 * 2**20
MAX_REFERRED: Final = 200  # files that a contract refers to
_DOCUMENTS: Final = (".yaml", ".yml", ".json")
_CONTRACTS: Final = (".proto", ".graphql", ".graphqls", ".gql", ".wsdl")
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_REFERENCE: Final = re.compile(r"""\$ref["']?\s*:\s*["']?([^\s"'#,{}]+)""")
Beside = Callable[[str], bytes | None]


@dataclass(slots=True)
class Imported:
    """The files by their path in the suite, and what was found and left out."""

    kind: str
    files: dict[str, bytes]
    surfaces: dict[str, int] = field(default_factory=dict)  # operations by the id of the surface
    examples: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    warnings: tuple[FileWarning, ...] = ()


def convert_file(name: str, content: bytes, beside: Beside, *, surface: str = "") -> Imported:
    """Return the files that a file becomes; raise Unreadable for what is none of the formats."""
    if name.lower().endswith(_CONTRACTS):
        return _contract(name, content, beside)
    if len(content) > MAX_RECORDING:
        raise Unreadable(f"larger than {MAX_RECORDING // 2**20} MiB")
    document = _without_envelope(_document(name, content))
    if is_har(document):
        return _import_recording("HAR", calls_of_har(document), surface, name)
    if is_postman(document):
        found = calls_of_postman(document)
        return _import_recording("Postman", found, surface or slug(found.title), name)
    if isinstance(document, dict) and {"openapi", "asyncapi", "swagger"} & document.keys():
        refuse_bad_strings(document)
        return _contract(name, content, beside)
    raise Unreadable("neither OpenAPI, AsyncAPI, a Postman collection (2.0, 2.1) nor HAR")


def _document(name: str, content: bytes) -> Any:
    """Return the document of a JSON or YAML file; of YAML, only what the members are."""
    text = content.decode(errors="replace").removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "[") or name.lower().endswith((".json", ".har")):
        raw = without_comments(text).encode()
        return read_json(raw, max_bytes=MAX_RECORDING, any_string=True)
    if len(content) > MAX_DOCUMENT:
        raise Unreadable(f"larger than {MAX_DOCUMENT // 2**20} MiB")
    return dict.fromkeys(read_tree(text, "x.yaml").pairs)


def _without_envelope(document: Any) -> Any:
    """Return the collection of `{"collection": …}`, the form of Postman's API."""
    inner = document.get("collection") if isinstance(document, dict) else None
    return inner if is_postman(inner) else document


def _import_recording(kind: str, recording: Recording, surface: str, source: str) -> Imported:
    made = mock_files(recording.calls, surface, source=source)
    if not made.files:
        reasons = [f"{reason} ({count} times)" for reason, count in recording.left_out.items()]
        why = f"; left out: {', '.join(reasons)[:500]}" if reasons else ""
        raise Unreadable(f"nothing was found in it that can be a mock{why}")
    files = {path: text.encode() for path, text in made.files.items()}
    found = _check(Imported(kind=kind, files=files, examples=made.examples))
    found.left_out = recording.left_out + made.left_out
    return found


def _contract(name: str, content: bytes, beside: Beside) -> Imported:
    if len(content) > MAX_DOCUMENT:
        raise Unreadable(f"larger than {MAX_DOCUMENT // 2**20} MiB")
    if b"\0" in content:
        raise Unreadable("contains a NUL byte")
    path = f"api/{_NOT_IN_A_NAME.sub('-', name).lstrip('.-') or 'contract.yaml'}"
    files = {path: content}
    left_out: Counter[str] = Counter()
    for target in _references(path, content):
        if target in files or len(files) > MAX_REFERRED:
            continue
        found = beside(target.removeprefix("api/"))
        if found is None:
            left_out[f"{target.removeprefix('api/')}, which is not there"] += 1
            continue
        files[target] = found
    made = _check(Imported(kind="contract", files=files))
    made.left_out = left_out
    if not made.surfaces:
        reasons = "; ".join(each.detail for each in made.warnings[:3])
        line, column = (made.warnings[0].line, made.warnings[0].column) if reasons else (None, None)
        raise Unreadable(reasons or "it declares no operation", line=line, column=column)
    return made


def _references(path: str, content: bytes) -> Iterator[str]:
    """Yield the files of api/ that a contract refers to; those that these refer to are theirs."""
    if not path.lower().endswith(_DOCUMENTS):
        return
    for found in _REFERENCE.finditer(content.decode(errors="replace")):
        named = unquote(found[1])
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), named))
        is_inside = target.startswith("api/") and target.lower().endswith(_DOCUMENTS)
        if (
            "://" not in named
            and is_inside
            and not any(p.startswith(".") for p in target.split("/"))
        ):
            yield target


def _check(made: Imported) -> Imported:
    """Note what a suite of these files alone would serve, and what would be wrong."""
    surfaces, warnings = surfaces_of(made.files, suite_id="imported", base_url="http://localhost")
    made.surfaces = {each.surface_id: len(each.operations) for each in surfaces if each.operations}
    made.warnings = warnings
    return made
