"""The packages of the catalog: repositories, suites and built-in modules, merged.

The rules are those of 5.1 of the reference (control-plane). A package is what people find; a suite
is what can be inspected and run.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, NotRequired, TypeAlias, TypedDict, get_args

from apps.oci.api import MODULE_TYPE, Repository
from apps.suites.api import DefinitionDocument, ModuleInfo
from kernel import clock
from kernel.ids import humanize, slug
from kernel.version import VERSION
from kernel.wire_types import Percentage

SUITE: Final = "suite"
STDLIB: Final = "stdlib"
OFFICIAL: Final = "Official"
VERIFIED: Final = "Verified"
INSTALLED: Final = "Installed"
LISTED: Final = "Listed"
BUILT_IN: Final = "Built-in"
WORKSPACE: Final = "Workspace"  # the provider of suites that no registry has
BUILT_IN_SCORE: Final = 100
_MAX_ID: Final = 128
_HASH_DIGITS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSuite:
    """A suite that the library has, as far as the catalog shows it.

    `is_remote`: it is the package of a registry, not a suite of the workspace. `sources` are the
    places that have the same package, each `repository:version`. `merits` are those that the score
    counts, by name.
    """

    suite_id: str
    title: str
    repository: str
    owner: str
    provider: str
    version: str
    description: str
    modules: tuple[str, ...]
    score: int
    launchable: bool
    is_remote: bool = False
    sources: tuple[str, ...] = ()
    merits: Mapping[str, bool] = field(default_factory=dict)


def known_suite(definition: DefinitionDocument) -> KnownSuite:
    """Return what the catalog shows of a suite."""
    return KnownSuite(
        suite_id=definition["id"],
        title=definition["title"],
        repository=definition["repository"],
        owner=definition["owner"],
        provider=definition["provider"],
        version=definition["version"],
        description=definition["description"],
        modules=tuple(definition["modules"]),
        score=definition["score"],
        launchable=definition["launchable"],
        is_remote=definition["provider"] != WORKSPACE,
        sources=tuple(definition.get("sources", ())),
        merits=_merits(definition),
    )


def _merits(definition: DefinitionDocument) -> dict[str, bool]:
    """Return each merit with whether the suite has it (reference: control-plane 5.1)."""
    files = definition.get("sourceFiles", [])
    readme = next((file["content"] for file in files if file["path"] == "README.md"), "")
    first = next((line.strip() for line in readme.splitlines() if line.strip()), "")
    return {
        "readme": bool(first.lstrip("#").strip()),
        "description": bool(definition["description"]),
        "profile": bool(definition["profiles"]),
        "contract": any(file["path"].startswith("api/") for file in files),
        "topology": "topology" in definition,
    }


PackageStatus: TypeAlias = Literal["Official", "Verified", "Installed", "Listed"]
STATUSES: Final = get_args(PackageStatus)  # a name of the OpenAPI (SPECTACULAR_SETTINGS)


class PackageDocument(TypedDict):
    """A package on the wire, but for `starred`, which each reader has an own answer to."""

    id: str
    kind: Literal["suite", "stdlib"]
    title: str
    repository: Annotated[str, "host/path of a registry's"]
    owner: str
    provider: str
    version: str
    tags: Annotated[list[str], "`latest` first, then descending"]
    description: str
    modules: list[str]
    status: PackageStatus
    score: Percentage
    pullCommand: NotRequired[Annotated[str, "absent for built-in modules: nothing to pull"]]
    forkCommand: NotRequired[Annotated[str, "absent for built-in modules: nothing to copy"]]
    inspectable: Annotated[bool, "whether `GET /suites/{suiteId}` can serve it"]
    suiteId: NotRequired[str]
    registryId: NotRequired[str]
    digest: NotRequired[Annotated[str, "of the manifest of `version`"]]
    error: NotRequired[Annotated[str, "why its content is not available"]]


class CatalogPackage(PackageDocument):
    """A package; `suiteId` where a suite of that repository is known."""

    starred: bool


class CatalogWarning(TypedDict):
    """A registry whose last sync failed; its last good content is shown."""

    registryId: str
    code: str
    detail: str


class CatalogEntry(TypedDict):
    """A package with what the page shows beyond the wire.

    `merits` say what the score counts; nothing is known of content that is not here. `seenAt` is
    when the registry was last seen to offer it.
    """

    package: PackageDocument
    launchable: bool
    merits: dict[str, bool]
    seenAt: str


def merge_packages(
    repositories: Iterable[Repository],
    providers: Mapping[str, str],
    suites: Sequence[KnownSuite],
    modules: Iterable[ModuleInfo],
) -> list[CatalogEntry]:
    """Merge the packages of all sources into one entry for each, by kind and title.

    `repositories` come in the order of the settings: of equal ones the first wins, and those of
    registries without a provider in `providers` are left out. `suites` come in the order in which a
    repository looks for its own.
    """
    offered = _first_of_each(each for each in repositories if each.registry_id in providers)
    own = _SuitesByRepository(suites)
    drafts = [_of_repository(each, providers[each.registry_id], own.of(each)) for each in offered]
    drafts += [_of_suite(suite) for suite in own.find_unmatched()]
    built_in = [_of_module(module) for module in modules]
    _give_ids(drafts, [entry["package"]["id"] for entry in built_in])
    drafts += built_in
    return sorted(drafts, key=lambda entry: package_key(entry["package"]))


def package_key(package: PackageDocument) -> tuple[str, str, str]:
    """Return the key by which packages are sorted: kind, title and id."""
    return (package["kind"], package["title"].casefold(), package["id"])


class _SuitesByRepository:
    """Finds the suite of a repository, and remembers which suites were found."""

    def __init__(self, suites: Sequence[KnownSuite]) -> None:
        self._suites = suites
        self._own: dict[str, KnownSuite] = {}
        self._remote: dict[str, KnownSuite] = {}
        for suite in suites:
            (self._remote if suite.is_remote else self._own).setdefault(suite.repository, suite)
            for source in suite.sources:
                self._remote.setdefault(source.rpartition(":")[0], suite)
        self._by_id = {suite.suite_id: suite for suite in suites if suite.is_remote}
        self._found: set[str] = set()

    def of(self, repository: Repository) -> KnownSuite | None:
        """Return the suite whose repository is this one, with or without its host.

        A suite of the workspace is preferred to the one that the registry's package is.
        """
        own = self._own.get(repository.repository) or self._own.get(repository.path)
        remote = self._remote.get(repository.repository) or self._by_id.get(repository.suite_id)
        self._found |= {each.suite_id for each in (own, remote) if each}
        return own or remote

    def find_unmatched(self) -> Iterator[KnownSuite]:
        """Yield the suites that are of no repository."""
        return (suite for suite in self._suites if suite.suite_id not in self._found)


def _first_of_each(repositories: Iterable[Repository]) -> list[Repository]:
    found: dict[str, Repository] = {}
    for each in repositories:
        found.setdefault(each.repository, each)
    return list(found.values())


def _of_repository(offered: Repository, provider: str, suite: KnownSuite | None) -> CatalogEntry:
    is_tagged = suite is not None and not suite.is_remote and suite.version in offered.tags
    version = suite.version if suite and is_tagged else offered.version
    segments = offered.path.split("/")
    is_module = suite is None and (
        offered.artifact_type == MODULE_TYPE or any(segment.startswith("@") for segment in segments)
    )
    package: PackageDocument = {
        "id": "",
        "kind": STDLIB if is_module else SUITE,
        "title": suite.title if suite else _words(segments[-1]),
        "repository": offered.repository,
        "owner": suite.owner if suite else _words(segments[0]),
        "provider": provider,
        "version": version,
        "tags": list(offered.tags),
        "description": suite.description if suite else "",
        "modules": list(suite.modules) if suite else [],
        "status": _status(suite, is_pulled=offered.pulled),
        "score": suite.score if suite else 0,
        "pullCommand": _pull_command(offered.repository, version),
        "forkCommand": _fork_command(offered.repository, version),
        "inspectable": suite is not None,
        "registryId": offered.registry_id,
    }
    if offered.digest and version == offered.version:
        package["digest"] = offered.digest
    if offered.error_detail:
        package["error"] = offered.error_detail
    return _entry(package, suite, seen_at=clock.rfc3339(offered.seen_at))


def _of_suite(suite: KnownSuite) -> CatalogEntry:
    package: PackageDocument = {
        "id": "",
        "kind": SUITE,
        "title": suite.title,
        "repository": suite.repository,
        "owner": suite.owner,
        "provider": suite.provider,
        "version": suite.version,
        "tags": [suite.version],
        "description": suite.description,
        "modules": list(suite.modules),
        "status": _status(suite, is_pulled=False),
        "score": suite.score,
        "pullCommand": _pull_command(suite.repository, suite.version),
        "forkCommand": _fork_command(suite.repository, suite.version),
        "inspectable": True,
    }
    return _entry(package, suite)


def _of_module(module: ModuleInfo) -> CatalogEntry:
    package: PackageDocument = {
        "id": _built_in_id(module.name),
        "kind": STDLIB,
        "title": f"@partita/{module.name}",
        "repository": f"partita/{module.name}",
        "owner": "Partita",
        "provider": BUILT_IN,
        "version": VERSION,
        "tags": [VERSION],
        "description": module.description,
        "modules": [module.name],
        "status": OFFICIAL,
        "score": BUILT_IN_SCORE,
        "inspectable": False,
    }
    return _entry(package, None)


def _pull_command(repository: str, version: str) -> str:
    return f"partita suite pull {_reference(repository, version)}"


def _fork_command(repository: str, version: str) -> str:
    folder = repository.rpartition("/")[2]
    return f"partita suite fork {_reference(repository, version)} ./{folder}"


def _reference(repository: str, version: str) -> str:
    return f"{repository}:{version}" if version else repository


def _status(suite: KnownSuite | None, *, is_pulled: bool) -> PackageStatus:
    if suite and not suite.is_remote:
        return INSTALLED
    return VERIFIED if is_pulled else LISTED


def _entry(
    package: PackageDocument, suite: KnownSuite | None, *, seen_at: str = ""
) -> CatalogEntry:
    if suite:
        package["suiteId"] = suite.suite_id
    return {
        "package": package,
        "launchable": suite is not None and suite.launchable,
        "merits": dict(suite.merits) if suite else {},
        "seenAt": seen_at,
    }


def _words(segment: str) -> str:
    return humanize(segment) or segment


def _built_in_id(name: str) -> str:
    return f"partita-{name}"


def _give_ids(entries: Sequence[CatalogEntry], reserved: Iterable[str]) -> None:
    """Set the ids. `reserved` are taken already.

    Suites that name the same repository are told apart by their own ids; the first one has the id
    of the repository.
    """
    names: list[tuple[str, str]] = []
    seen: set[str] = set()
    for entry in entries:
        package = entry["package"]
        repository = package["repository"]
        own = f"{repository} {package.get('suiteId', '')}" if repository in seen else repository
        seen.add(repository)
        names.append((repository, own))
    slugs = Counter([*map(slug, seen), *reserved])
    for entry, (repository, own) in zip(entries, names, strict=True):
        base = slug(repository)
        is_free = own == repository and slugs[base] == 1 and 0 < len(base) <= _MAX_ID
        entry["package"]["id"] = base if is_free else hashed_id(base, own)


def hashed_id(base: str, name: str) -> str:
    """Return `base`, shortened if necessary, with six hexadecimal digits of the name's SHA-256."""
    digits = hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]
    head = base[: _MAX_ID - _HASH_DIGITS - 1].rstrip("-")
    return f"{head}-{digits}" if head else digits
