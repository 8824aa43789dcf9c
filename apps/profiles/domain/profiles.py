"""Profiles: their files, which of them a launch uses, and its merge with those that it extends.

(reference: control-plane 6.1, 10)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from kernel.errors import FieldError, PlatformError, known_names
from kernel.ids import humanized, is_env_name, slug
from readers import Unreadable
from readers.yaml import Node, read_yaml

FOLDER: Final = "profiles"
OBSERVABILITY: Final = ("logs", "traces", "metrics")
_KEYS: Final = (
    "name", "description", "default", "extendsId", "runtime", "modules", "observability",
    "secretRefs", "env", "services",
)  # fmt: skip
_RUNTIME_KEYS: Final = ("suite", "repository", "profileFile")
_SECRET_KEYS: Final = ("key", "provider", "ref")
_SCOPES: Final = {
    "base": "Base",
    "local": "Local",
    "ci": "CI",
    "perf": "Performance",
    "stage": "Staging",
    "staging": "Staging",
    "canary": "Canary",
}

Env = dict[str, str | None]


class ProfileInvalid(PlatformError):
    """A profile file or a chain of profiles is invalid; `errors` has the places."""

    code = "profile_invalid"


class ProfileNotInSuite(PlatformError):
    """The suite has no profile of this name; `detail` lists its profiles."""

    code = "profile_not_in_suite"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    key: str
    provider: str
    ref: str

    def as_dict(self) -> dict[str, str]:
        return {"key": self.key, "provider": self.provider, "ref": self.ref}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile file as written. In `env` and `services`, None unsets an inherited key.

    `problem` is the first error of an invalid file, which stays in every list; `warnings` name
    keys that are ignored.
    """

    profile_id: str
    file_name: str
    label: str
    description: str = ""
    default: bool = False
    extends_id: str = ""
    repository: str = ""
    modules: tuple[str, ...] = ()
    env: Env = field(default_factory=dict)
    services: Mapping[str, Env] = field(default_factory=dict)
    secret_refs: tuple[SecretRef, ...] = ()
    observability: Mapping[str, bool] = field(default_factory=dict)
    problem: FieldError | None = None
    warnings: tuple[FieldError, ...] = ()

    @property
    def scope(self) -> str:
        own = PurePosixPath(self.file_name).stem
        return _SCOPES.get(own.lower(), humanized(own))

    @property
    def launchable(self) -> bool:
        """True unless the profile is only a base for others (reference: control-plane 10)."""
        return self.default or self.scope != "Base"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProfile:
    """A merged chain: from the root on, later files win key by key; unset keys are gone.

    `file_name` is "" for a suite without profiles. `env` and `services` (step id or name to env)
    hold source texts; `observability` has `logs`, `traces` and `metrics`.
    """

    file_name: str = ""
    label: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    services: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    secret_refs: tuple[SecretRef, ...] = ()
    observability: Mapping[str, bool] = field(
        default_factory=lambda: dict.fromkeys(OBSERVABILITY, True)
    )
    modules: tuple[str, ...] = ()


def profiles_of(files: Mapping[str, bytes]) -> tuple[Profile, ...]:
    """Return the profile files of a suite, the default first, then by file name.

    `files` are those of the package, by their path in it.
    """
    taken: set[str] = set()
    found = [
        read_profile(files[path].decode(errors="replace"), path=path, taken=taken)
        for path in sorted(files)
        if is_profile_path(path)
    ]
    chained = [_with_chain_problem(profile, found) for profile in found]
    return tuple(sorted(chained, key=lambda profile: (not profile.default, profile.file_name)))


def is_profile_path(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder == FOLDER and name.endswith((".yaml", ".yml"))


def read_profile(text: str, *, path: str, taken: set[str]) -> Profile:
    """Read a profile file and add its id to `taken`, the ids of the files read before."""
    file_name = path.rpartition("/")[2]
    stem = PurePosixPath(file_name).stem
    wanted = slug(stem) or "profile"
    candidates = [wanted, *(f"{wanted}-{n}" for n in range(2, len(taken) + 3))]
    profile_id = next(candidate for candidate in candidates if candidate not in taken)
    taken.add(profile_id)
    label = humanized(stem) or file_name
    empty = Profile(profile_id=profile_id, file_name=file_name, label=label)
    reader = _ProfileReader(path)
    try:
        return reader.profile(read_yaml(text), empty)
    except Unreadable as error:
        return replace(empty, problem=reader.error(error))


def select_profile(
    profiles: Sequence[Profile], requested: str = "", *, suite_id: str
) -> LaunchProfile:
    """Return the requested profile of a suite (file name or id), else the default one, merged.

    An empty LaunchProfile if there is none. Raise ProfileNotInSuite, ProfileInvalid.
    """
    profile = find_profile(profiles, requested) if requested else default_profile(profiles)
    if profile is not None:
        return merge_chain(profiles, profile)
    if not requested:
        return LaunchProfile()
    known = known_names(each.file_name for each in profiles)
    raise ProfileNotInSuite(f"suite {suite_id} has no profile {requested[:200]!r}{known}")


def merge_chain(profiles: Sequence[Profile], profile: Profile) -> LaunchProfile:
    """Return the profile merged with those that it extends.

    Raise ProfileInvalid for an invalid file, a cycle or an unknown `extendsId`.
    """
    chain = _chain(profiles, profile)
    env: dict[str, str] = {}
    services: dict[str, dict[str, str]] = {}
    secrets: dict[str, SecretRef] = {}
    observability = dict.fromkeys(OBSERVABILITY, True)
    modules: set[str] = set()
    for link in chain:
        _overlay(env, link.env)
        for step, own in link.services.items():
            _overlay(services.setdefault(step, {}), own)
        secrets |= {ref.key: ref for ref in link.secret_refs}
        observability |= link.observability
        modules |= set(link.modules)
    return LaunchProfile(
        file_name=profile.file_name,
        label=profile.label,
        env=env,
        services={step: own for step, own in services.items() if own},
        secret_refs=tuple(secrets.values()),
        observability=observability,
        modules=tuple(sorted(modules)),
    )


def find_profile(profiles: Sequence[Profile], named: str) -> Profile | None:
    """Find a profile by file name, else by id, launchable or not."""
    by_file = (profile for profile in profiles if profile.file_name == named)
    by_id = (profile for profile in profiles if profile.profile_id == named)
    return next(by_file, None) or next(by_id, None)


def default_profile(profiles: Sequence[Profile]) -> Profile | None:
    """Return the first launchable profile flagged as default, else the first launchable one."""
    launchable = [profile for profile in profiles if profile.launchable]
    flagged = [profile for profile in launchable if profile.default]
    return next(iter([*flagged, *launchable]), None)


def _overlay(base: dict[str, str], own: Mapping[str, str | None]) -> None:
    for name, value in own.items():
        if value is None:
            base.pop(name, None)
        else:
            base[name] = value


def _chain(profiles: Sequence[Profile], profile: Profile) -> list[Profile]:
    """Return the chain from its root to the profile."""
    by_id = {each.profile_id: each for each in profiles}
    chain = [profile]
    while parent_id := chain[-1].extends_id:
        parent = by_id.get(parent_id)
        if parent is None:
            raise _chain_error(chain[-1], f'extendsId "{parent_id}" is not a profile of this suite')
        if parent in chain:
            path = " -> ".join(each.profile_id for each in [*chain, parent])
            raise _chain_error(profile, f"profiles extend each other: {path}")
        chain.append(parent)
    for link in chain:
        if link.problem:
            raise ProfileInvalid(_sentence(link.problem), errors=[link.problem])
    return chain[::-1]


def _chain_error(profile: Profile, detail: str) -> ProfileInvalid:
    problem = FieldError(
        pointer="/extendsId",
        code="invalid_value",
        detail=detail,
        file=f"{FOLDER}/{profile.file_name}",
    )
    return ProfileInvalid(_sentence(problem), errors=[problem])


def _sentence(problem: FieldError) -> str:
    place = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
    return f"{place}: {problem.detail}"


def _with_chain_problem(profile: Profile, profiles: Sequence[Profile]) -> Profile:
    if profile.problem is None and profile.extends_id:
        try:
            _chain(profiles, profile)
        except ProfileInvalid as error:
            return replace(profile, problem=error.errors[0])
    return profile


class _ProfileReader:
    """Reads the typed values of a file; raises Unreadable with the place of an invalid value."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.warnings: list[FieldError] = []

    def error(self, error: Unreadable) -> FieldError:
        return FieldError(
            pointer="/yaml",
            code="invalid_value",
            detail=error.reason,
            file=self.path,
            line=error.line,
            column=error.column,
        )

    def profile(self, root: Node, empty: Profile) -> Profile:
        if root.is_null:
            return empty
        if root.pairs is None:
            raise root.unreadable("a profile must be a mapping")
        self.warn_of_unknown(root, _KEYS, "")
        runtime = self.mapping(root, "runtime", _RUNTIME_KEYS)
        observability = self.mapping(root, "observability", OBSERVABILITY)
        read = replace(
            empty,
            label=self.text(root, "name") or empty.label,
            description=self.text(root, "description"),
            default=self.flag(root, "default", absent=False),
            extends_id=self.text(root, "extendsId"),
            repository=self.text(runtime, "repository"),
            modules=tuple(self.text_of(item) for item in self.items(root, "modules")),
            env=self.env(root),
            services=self.services(root),
            secret_refs=tuple(self.secret_ref(item) for item in self.items(root, "secretRefs")),
            observability={
                key: self.flag(observability, key, absent=True)
                for key in observability.names()
                if key in OBSERVABILITY
            },
        )
        for key in ("suite", "profileFile"):
            self.text(runtime, key)
        return replace(read, warnings=tuple(self.warnings))

    def warn_of_unknown(self, node: Node, known: Iterable[str], where: str) -> None:
        for key, _ in node.pairs or []:
            if (key.text or "") not in known:
                detail = f'"{where}{key.text}" is not a key of profiles and is ignored'
                self.warnings.append(
                    FieldError(code="unknown_key", detail=detail, file=self.path, line=key.line)
                )

    def text(self, node: Node, key: str) -> str:
        """Return a string, or another scalar as in the source; "" when absent or null."""
        value = node.get(key)
        return "" if value is None or value.is_null else self.text_of(value, key)

    def text_of(self, value: Node, key: str = "an entry") -> str:
        if value.text is None:
            raise value.unreadable(f"{key} must be a string")
        return value.text

    def flag(self, node: Node, key: str, *, absent: bool) -> bool:
        value = node.get(key)
        if value is None or value.is_null:
            return absent
        found = value.scalar() if value.text is not None else None
        if not isinstance(found, bool):
            raise value.unreadable(f"{key} must be true or false")
        return found

    def items(self, node: Node, key: str) -> list[Node]:
        value = node.get(key)
        if value is None or value.is_null:
            return []
        if value.items is None:
            raise value.unreadable(f"{key} must be a list")
        return value.items

    def mapping(self, node: Node, key: str, known: Sequence[str] | None = None) -> Node:
        value = node.get(key)
        if value is None or value.is_null:
            return Node(line=node.line, column=node.column, pairs=[])
        if value.pairs is None:
            raise value.unreadable(f"{key} must be a mapping")
        if known is not None:
            self.warn_of_unknown(value, known, f"{key}.")
        return value

    def env(self, node: Node) -> Env:
        """Return source texts by name, None for null."""
        return {
            self.variable(name): self.env_value(name, value)
            for name, value in self.mapping(node, "env").pairs or []
        }

    def variable(self, name: Node) -> str:
        if not is_env_name(name.text or ""):
            raise name.unreadable(f'"{name.text}" is not a valid name for an environment variable')
        return name.text or ""

    def env_value(self, name: Node, value: Node) -> str | None:
        if value.text is None:
            raise value.unreadable(f"{name.text} must be a single value")
        if value.is_null:
            return None
        if "\0" in value.text:
            raise value.unreadable(f"{name.text} contains a NUL character")
        return value.text

    def services(self, root: Node) -> dict[str, Env]:
        found = {}
        for step, _ in self.mapping(root, "services").pairs or []:
            own = self.mapping(root.get("services") or root, step.text or "", ("env",))
            found[step.text or ""] = self.env(own)
        return found

    def secret_ref(self, item: Node) -> SecretRef:
        if item.pairs is None:
            raise item.unreadable("a secretRef must be a mapping of key, provider and ref")
        self.warn_of_unknown(item, _SECRET_KEYS, "secretRefs.")
        given = {name: self.text(item, name) for name in _SECRET_KEYS}
        for name, value in given.items():
            if not value:
                raise item.unreadable(f"a secretRef requires {name}")
        if not is_env_name(given["key"]):
            raise item.unreadable(
                f'"{given["key"]}" is not a valid name for an environment variable'
            )
        return SecretRef(**given)
