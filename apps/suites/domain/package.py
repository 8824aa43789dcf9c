"""The files of a suite, and the rules for them (reference: control-plane 6)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from readers.archive import long_path_rule
from readers.folder import MAX_FILES, MAX_PACKAGE_BYTES, broken_text_rule

MAX_PATH: Final = 512
TOPOLOGY_FILE: Final = "suite.star"
WORKSPACE: Final = "workspace"
REGISTERED: Final = "registered"
REGISTRY: Final = "registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a package comes from; `source` is workspace, registered or registry.

    The other members are those of a registry: its provider, and the repository, version (tag) and
    digest of the manifest under which the package was pulled; `also` are the other places that
    have just this package, each `repository:version`.
    """

    source: str = WORKSPACE
    provider: str = "Workspace"
    repository: str = ""
    version: str = ""
    digest: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The files of a suite by their path in the package.

    `problem` is the broken package rule or "", `problem_file` its file; `files` then has only the
    files that could be read.
    """

    suite_id: str
    files: Mapping[str, bytes]
    problem: str = ""
    problem_file: str = ""
    origin: Origin = Origin()

    def text(self, path: str) -> str:
        """Return a file's text, or "" for an unknown file."""
        return self.files.get(path, b"").decode(errors="replace")

    def first_of(self, *paths: str) -> str | None:
        return next((path for path in paths if path in self.files), None)


def broken_path_rule(path: str) -> str:
    """Return why the text is not allowed as the path of a file of a package, or ""."""
    segments = path.split("/")
    if not path or any(segment in ("", ".", "..") for segment in segments):
        return "is not a relative, normalized path"
    if any(segment.startswith(".") for segment in segments):
        return "is hidden: hidden files are not part of a package"
    if "\\" in path or not path.isprintable():
        return "contains a backslash or a control character"
    if len(path) > MAX_PATH:
        return f"is longer than {MAX_PATH} characters"
    return long_path_rule(path)


def broken_files_rule(files: Mapping[str, bytes], *, needs: str = TOPOLOGY_FILE) -> tuple[str, str]:
    """Return the first broken rule of files from elsewhere as (path, reason), or two empty texts.

    For content that was not read from a folder of the workspace (reference: control-plane 6).
    `needs` is the file that must be among them, if any.
    """
    if len(files) > MAX_FILES:
        return sorted(files)[MAX_FILES], f"is one file too many: at most {MAX_FILES} are allowed"
    if needs and needs not in files:
        return needs, "is missing"
    if sum(map(len, files.values())) > MAX_PACKAGE_BYTES:
        return max(files, key=lambda path: len(files[path])), "makes the package exceed 64 MiB"
    for path in sorted(files):
        if reason := _broken_rule(path, files):
            return path, reason
    return "", ""


def _broken_rule(path: str, files: Mapping[str, bytes]) -> str:
    above = path.split("/")[:-1]
    if any("/".join(above[:depth]) in files for depth in range(1, len(above) + 1)):
        return "is below a path that is a file"
    return broken_path_rule(path) or broken_text_rule(path, files[path])


def with_unlike_names(package: Package) -> Package:
    """Return the package, with a problem if two of its names are one on some computers.

    What a registry has stays usable: whoever pulls it cannot rename its files.
    """
    if package.problem or package.origin.source == REGISTRY:
        return package
    first, second = clashing_names(package.files)
    if not second:
        return package
    by_case = first.casefold() == second.casefold()
    names = (first, second) if by_case else (ascii(first), ascii(second))
    problem = (
        f"{names[1]} differs from {names[0]} by {'case' if by_case else 'its Unicode form'} only, "
        "and is the same file on macOS and Windows: rename one of them"
    )
    return replace(package, problem=problem, problem_file=second)


def clashing_names(files: Iterable[str]) -> tuple[str, str]:
    """Return the first two names of files or folders that one computer may take for one.

    They differ by case or by the Unicode form alone: macOS and Windows keep one of them. Return two
    empty texts if there are none.
    """
    spelled: dict[str, str] = {}
    for path in sorted(files):
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            name = "/".join(parts[:depth])
            known = spelled.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
            if known != name:
                return known, name
    return "", ""
