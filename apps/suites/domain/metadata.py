"""The metadata of a suite, from metadata.yaml and README.md (reference: control-plane 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from apps.profiles.api import Profile, keep_on_failure_ms
from apps.suites.domain.package import REGISTRY, Package
from kernel.errors import FileWarning
from kernel.ids import humanize
from readers import Unreadable
from readers.yaml import Node, read_yaml

FILES: Final = ("metadata.yaml", "metadata.yml")
PROVIDER: Final = "Workspace"
_TEXTS: Final = ("id", "title", "description", "owner", "repository", "version")
_FLAT: Final = (*_TEXTS, "labels", "tags", "keepOnFailure", "mocks")
_WRAPPED: Final = ("apiVersion", "kind", "metadata", "spec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    title: str
    description: str
    owner: str
    repository: str
    version: str
    labels: Mapping[str, str]
    tags: tuple[str, ...]
    has_readme: bool
    keep_on_failure_ms: int = 0  # how long the environments of failed runs stay by default
    problem: str = ""
    problem_file: str = ""
    problem_line: int | None = None
    warnings: tuple[FileWarning, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetadataFile:
    """The known keys of metadata.yaml that are set; `texts` are those with a string."""

    texts: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    keep_on_failure_ms: int = 0
    warnings: tuple[FileWarning, ...] = ()


def metadata_of(package: Package, profiles: Sequence[Profile]) -> Metadata:
    """Return the metadata with defaults; an unreadable file becomes the `problem`."""
    given = _MetadataFile()
    path = package.first_of(*FILES)
    if path is None:
        return _with_defaults(given, package, profiles)
    try:
        given = _read(package.text(path), path)
        if package.origin.source != REGISTRY:
            _check_id(given.texts.get("id", package.suite_id), package.suite_id)
    except Unreadable as error:
        return replace(
            _with_defaults(given, package, profiles),
            problem=error.reason,
            problem_file=path,
            problem_line=error.line,
        )
    return _with_defaults(given, package, profiles)


def _check_id(named: str, suite_id: str) -> None:
    if named != suite_id:
        raise Unreadable(f'id "{named}" is not the suite\'s id "{suite_id}"')


def _with_defaults(given: _MetadataFile, package: Package, profiles: Sequence[Profile]) -> Metadata:
    title, description = _readme(package)
    texts, labels, origin = given.texts, given.labels, package.origin
    named = next((profile.repository for profile in profiles if profile.repository), "")
    stated = texts.get("repository") or named or f"workspace/{package.suite_id}"
    repository = origin.repository or stated
    place = REGISTRY if origin.source == REGISTRY else "workspace"
    return Metadata(
        title=texts.get("title") or title or humanize(package.suite_id) or package.suite_id,
        description=texts.get("description") or description,
        owner=texts.get("owner") or labels.get("owner") or _owner_of(repository),
        repository=repository,
        version=origin.version or texts.get("version") or "workspace",
        labels=labels,
        tags=tuple(sorted({place, *given.tags})),
        has_readme=bool(title),
        keep_on_failure_ms=given.keep_on_failure_ms,
        warnings=given.warnings,
    )


def _owner_of(repository: str) -> str:
    """Return the second-last segment in words, or `Workspace` for a suite of the workspace."""
    segments = repository.split("/")
    return humanize(segments[-2]) if len(segments) > 1 else PROVIDER


def _readme(package: Package) -> tuple[str, str]:
    """Return the first two non-empty lines of the README, without leading `#`."""
    path = package.first_of("README.md")
    lines = [line.strip() for line in package.text(path or "").splitlines() if line.strip()]
    first, second, *_ = [*lines[:2], "", ""]
    return first.lstrip("#").strip(), second


def _read(text: str, path: str) -> _MetadataFile:
    """Return the known keys, flat ones before those of `spec` and `metadata`; raise Unreadable."""
    root = read_yaml(text)
    if root.is_null:
        return _MetadataFile()
    if root.pairs is None:
        raise root.unreadable("metadata must be a mapping")
    wrapped = root.get("kind") is not None or root.get("spec") is not None
    levels = [root, *(_section(root, name) for name in ("spec", "metadata") if wrapped)]
    given: dict[str, Node] = {}
    for key, value in (pair for level in levels for pair in level.pairs or []):
        if key.text in _FLAT and not value.is_null:
            given.setdefault(key.text, value)
    return _MetadataFile(
        texts={name: _text(name, given[name]) for name in _TEXTS if name in given},
        labels=_labels(given["labels"]) if "labels" in given else {},
        tags=_tags(given["tags"]) if "tags" in given else (),
        keep_on_failure_ms=keep_on_failure_ms(given.get("keepOnFailure")) or 0,
        warnings=tuple(_warnings(root, wrapped=wrapped, path=path)),
    )


def _section(root: Node, name: str) -> Node:
    section = root.get(name) or Node(line=1, column=1, pairs=[])
    if section.pairs is None and not section.is_null:
        raise section.unreadable(f"{name} must be a mapping")
    return section


def _labels(value: Node) -> dict[str, str]:
    if value.pairs is None:
        raise value.unreadable("labels must be a mapping")
    return {name.text or "": _text(f"label {name.text}", item) for name, item in value.pairs}


def _tags(value: Node) -> tuple[str, ...]:
    if value.items is None:
        raise value.unreadable("tags must be a list")
    return tuple(_text("a tag", item) for item in value.items)


def _text(name: str, value: Node) -> str:
    if value.text is None:
        raise value.unreadable(f"{name} must be a string")
    return value.text


def _warnings(root: Node, *, wrapped: bool, path: str) -> list[FileWarning]:
    known = (*_FLAT, *_WRAPPED) if wrapped else _FLAT
    return [
        FileWarning(
            code="unknown_key",
            detail=f'"{key.text}" is not a key of suite metadata and is ignored',
            file=path,
            line=key.line,
        )
        for key, _ in root.pairs or []
        if key.text not in known
    ]
