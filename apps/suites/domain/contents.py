"""How a package's files are shown: languages, folders and their roles.

(reference: control-plane 9)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from kernel.ids import humanized

ROLES: Final = {
    "profiles": "Configuration",
    "api": "Contracts",
    "mock": "Mocking",
    "services": "Infrastructure",
    "tasks": "Operations",
    "tests": "Verification",
    "traffic": "Performance",
    "load": "Performance",
}
_LANGUAGES: Final = {
    "yaml": "yaml yml",
    "json": "json",
    "cue": "cue",
    "xml": "xml wsdl xsd",
    "protobuf": "proto",
    "rego": "rego",
    "python": "py",
    "bash": "sh bash",
    "typescript": "ts tsx mts",
    "javascript": "js mjs cjs jsx",
    "csv": "csv",
    "markdown": "md markdown",
    "starlark": "star bzl",
}
LANGUAGE_OF: Final = {
    extension: language
    for language, extensions in _LANGUAGES.items()
    for extension in extensions.split()
}


def language(path: str) -> str:
    return LANGUAGE_OF.get(PurePosixPath(path).suffix[1:].lower(), "text")


def source_files(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """`{path, language, size, content}` by path; `size` in bytes."""
    return [
        {
            "path": path,
            "language": language(path),
            "size": len(files[path]),
            "content": files[path].decode(errors="replace"),
        }
        for path in sorted(files)
    ]


def folders(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """`{name, role, files[]}` of each top folder, by name; `files` are paths in the package."""
    inside: dict[str, list[str]] = {}
    for path in sorted(files):
        folder, slash, _ = path.partition("/")
        if slash:
            inside.setdefault(folder, []).append(path)
    return [
        {"name": name, "role": ROLES.get(name) or humanized(name), "files": inside[name]}
        for name in sorted(inside)
    ]
