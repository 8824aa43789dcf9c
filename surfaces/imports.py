"""A file from elsewhere as files of a suite: a contract into api/, recorded calls into mock/.

    found = convert_file("petstore.yaml", content, beside)  # raises Unreadable
    found.files                                             # path in the suite -> content

`beside(path)` returns a file that a contract refers to, by its path from its folder.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn
from urllib.parse import unquote

from kernel.errors import FileWarning
from kernel.ids import slug
from readers import Unreadable
from readers.json import EXTRA_DATA, read_json, refuse_bad_strings
from readers.tree import Tree
from surfaces.hydration import surfaces_of
from surfaces.keywords.recording_grammars import recording_problems, unknown_format_advice
from surfaces.recordings import MockFiles, Recording, calls_of_har, calls_of_postman, mock_files
from surfaces.recordings.har import is_har
from surfaces.recordings.microcks import is_microcks, stubs_of_microcks
from surfaces.recordings.postman import is_postman
from surfaces.recordings.stubs import Stubs
from surfaces.recordings.wiremock import is_wiremock, stubs_of_wiremock
from surfaces.trees import MAX_DOCUMENT, read_tree, with_place, without_comments

UNKNOWN_KEYWORD: Final = "recording_invalid"
MAX_RECORDING: Final = 64 * 2**20
MAX_REFERRED: Final = 200  # files that a contract refers to
_DOCUMENTS: Final = (".yaml", ".yml", ".json")
_CONTRACT_KEYS: Final = frozenset({"openapi", "asyncapi", "swagger"})
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
    document, rest = _document(name, content)
    if isinstance(document, dict) and _CONTRACT_KEYS & document.keys():
        if rest:
            raise Unreadable(f"the document is not alone: {rest}")
        refuse_bad_strings(document)
        return _contract(name, content, beside)
    found = _convert_mocks(name, document, beside, surface, content)
    if rest:
        found.left_out[rest] += 1
    return found


def _convert_mocks(
    name: str, document: Any, beside: Beside, surface: str, content: bytes
) -> Imported:
    document = _without_envelope(document)
    kind = _format_of(document)
    if not kind:
        _refuse_format(name, content)
    mistakes = _mistakes(kind, name, content)
    try:
        found = _convert_format(kind, name, document, beside, surface)
    except Unreadable as error:
        if error.line or not mistakes:
            raise
        first = mistakes[0]
        reason = f"{error.reason}; {first.detail}"
        raise Unreadable(reason, line=first.line, column=first.column) from None
    found.warnings = (*mistakes, *found.warnings)
    return found


def _format_of(document: Any) -> str:
    tests = {"HAR": is_har, "Postman": is_postman, "WireMock": is_wiremock, "Microcks": is_microcks}
    return next((name for name, test in tests.items() if test(document)), "")


def _convert_format(kind: str, name: str, document: Any, beside: Beside, surface: str) -> Imported:
    if kind == "HAR":
        return _import_recording("HAR", calls_of_har(document), surface, name)
    if kind == "Postman":
        found = calls_of_postman(document)
        return _import_recording("Postman", found, surface or slug(found.title), name)
    if kind == "WireMock":
        stubs = stubs_of_wiremock({name: document}, lambda path: beside(f"__files/{path}"))
        return _import_stubs("WireMock", [stubs], surface, name)
    refuse_bad_strings(document)
    return _import_stubs("Microcks", stubs_of_microcks({name: document}), surface, name)


def _mistakes(kind: str, name: str, content: bytes) -> list[FileWarning]:
    """Return what is wrong in a document of a format; nothing of one that is no tree."""
    tree = _tree(name, content)
    return [
        FileWarning(
            code=UNKNOWN_KEYWORD, detail=each.detail[:600], file=name,
            line=each.at.line or None, column=each.at.column or None,
        )
        for each in (recording_problems(kind, tree) if tree is not None else ())
    ]  # fmt: skip


def _refuse_format(name: str, content: bytes) -> NoReturn:
    reason = (
        "neither OpenAPI, Swagger, AsyncAPI, a Postman collection, HAR, a mapping of WireMock nor "
        "examples of Microcks"
    )
    tree = _tree(name, content)
    advice, at = unknown_format_advice(tree) if tree is not None else ("", None)
    if at is None:
        raise Unreadable(reason)
    raise Unreadable(f"{reason}{advice}", line=at.line or None, column=at.column or None)


def _tree(name: str, content: bytes) -> Tree | None:
    text = content.decode(errors="replace").removeprefix("\ufeff")
    is_json = text.lstrip()[:1] in ("{", "[") or not name.lower().endswith((".yaml", ".yml"))
    try:
        return read_tree(text, "x.json" if is_json else "x.yaml")
    except Unreadable:  # text behind a document, or NUL in one: said by who reads it
        return None


def convert_folder(name: str, files: Mapping[str, bytes], *, surface: str = "") -> Imported:
    """Return the files that a folder of WireMock or Microcks becomes; raise Unreadable.

    `files` are by their path in the folder: `mappings/**.json` (or `**.json` without any) and
    `__files/**`, or documents of Microcks.
    """
    said: Counter[str] = Counter()
    mistakes: list[FileWarning] = []
    documents = dict(_stub_documents(files, said, mistakes))
    microcks = {path: each for path, each in documents.items() if is_microcks(each)}
    if microcks:
        found = _import_stubs("Microcks", stubs_of_microcks(microcks), surface, name)
    elif documents:
        stubs = stubs_of_wiremock(documents, lambda path: files.get(f"__files/{path}"))
        found = _import_stubs("WireMock", [stubs], surface, name)
    else:
        raise Unreadable("no mapping of WireMock (mappings/*.json), no examples of Microcks in it")
    found.left_out += said
    found.warnings = (*mistakes, *found.warnings)
    return found


def _stub_documents(
    files: Mapping[str, bytes], said: Counter[str], mistakes: list[FileWarning]
) -> Iterator[tuple[str, Any]]:
    """Yield the documents of a folder by their path; what is none is said."""
    listed = sorted(path for path in files if path.lower().endswith(_DOCUMENTS))
    mappings = [path for path in listed if path.startswith("mappings/")]
    for path in mappings or [each for each in listed if not each.startswith("__files/")]:
        try:
            document, rest = _document(path, files[path])
            if is_microcks(document):
                refuse_bad_strings(document)
        except Unreadable as error:
            said[f"{path}:{error.line or 1}: {error.reason}"] += 1
            continue
        kind = _format_of(document)
        if kind in ("WireMock", "Microcks"):
            mistakes += _mistakes(kind, path, files[path])
            yield path, document
        else:
            said[f"{path}: neither a mapping of WireMock nor examples of Microcks"] += 1
        if rest:
            said[f"{path}: {rest}"] += 1


def _document(name: str, content: bytes) -> tuple[Any, str]:
    """Return the document of a JSON or YAML file, and what is said of text behind it.

    Of YAML that is a contract, only what the members are.
    """
    text = content.decode(errors="replace").removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "[") or name.lower().endswith((".json", ".har")):
        return _json_document(without_comments(text))
    if len(content) > MAX_DOCUMENT:
        raise Unreadable(f"larger than {MAX_DOCUMENT // 2**20} MiB")
    tree = read_tree(text, "x.yaml")
    return (tree.plain() if "apiVersion" in tree.pairs else dict.fromkeys(tree.pairs)), ""


def _json_document(text: str) -> tuple[Any, str]:
    try:
        return read_json(text.encode(), max_bytes=MAX_RECORDING, any_string=True), ""
    except Unreadable as error:
        if error.reason != EXTRA_DATA or not error.line or not error.column:
            raise with_place(text, error) from None
        line, column = error.line, error.column
        end = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1
    value = read_json(text[:end].encode(), max_bytes=MAX_RECORDING, any_string=True)
    rest = text[end:]
    what = "NUL bytes" if not rest.strip("\0 \t\r\n") else "text that is not read"
    return value, f"{what} behind the document, from line {line} column {column}"


def _without_envelope(document: Any) -> Any:
    """Return the collection of `{"collection": …}`, the form of Postman's API."""
    inner = document.get("collection") if isinstance(document, dict) else None
    return inner if is_postman(inner) else document


def _import_stubs(kind: str, apis: Sequence[Stubs], surface: str, source: str) -> Imported:
    made = MockFiles()
    for stubs in apis:
        stubs.add_to(made, surface, source=source)
    return _import_files(kind, made, Counter())


def _import_recording(kind: str, recording: Recording, surface: str, source: str) -> Imported:
    made = mock_files(recording.calls, surface, source=source)
    return _import_files(kind, made, recording.left_out)


def _import_files(kind: str, made: MockFiles, left_out: Counter[str]) -> Imported:
    left_out = left_out + made.left_out
    if not made.files:
        reasons = [f"{reason} ({count} times)" for reason, count in left_out.items()]
        why = f"; left out: {', '.join(reasons)[:500]}" if reasons else ""
        raise Unreadable(f"nothing was found in it that can be a mock{why}")
    files = {path: text.encode() for path, text in made.files.items()}
    found = _check(Imported(kind=kind, files=files, examples=made.examples))
    found.left_out = left_out
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
