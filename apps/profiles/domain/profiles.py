"""Profiles: which of them a launch uses, and its merge with those that it extends.

(reference: control-plane 6.1, 10)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final, TypedDict

from kernel.errors import FieldError, PlatformError, known_names
from kernel.ids import humanize

FOLDER: Final = "profiles"
OBSERVABILITY: Final = ("logs", "traces", "metrics")
KEEP_MAX_MS: Final = 14_400_000  # 4 h, for which the environment of a run may stay
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


class SecretRefDocument(TypedDict):
    """Where the value of a variable is: never the value."""

    key: str
    provider: str
    ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    key: str
    provider: str
    ref: str

    def as_dict(self) -> SecretRefDocument:
        return {"key": self.key, "provider": self.provider, "ref": self.ref}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile as written. In `env` and `services`, None unsets an inherited key.

    `problem` is the first error of an invalid file, which stays in every list; `warnings` name
    keys that are ignored. `given_scope` and `may_launch` are set where a record decides, not the
    file's name. `managed` tells the two apart.
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
    keep_on_failure_ms: int | None = None
    problem: FieldError | None = None
    warnings: tuple[FieldError, ...] = ()
    given_scope: str = ""
    may_launch: bool | None = None
    managed: bool = False

    @property
    def scope(self) -> str:
        own = PurePosixPath(self.file_name).stem
        return self.given_scope or _SCOPES.get(own.lower(), humanize(own))

    @property
    def launchable(self) -> bool:
        """True unless the profile is only a base for others (reference: control-plane 10)."""
        if self.may_launch is not None:
            return self.may_launch
        return self.default or self.scope != "Base"

    @property
    def path(self) -> str:
        """The place that problems name: the file in the suite, or the record's file name."""
        return self.file_name if self.managed else f"{FOLDER}/{self.file_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProfile:
    """A merged chain: from the root on, later files win key by key; unset keys are gone.

    `file_name` is "" for a suite without profiles. `env` and `services` (step id or name to env)
    hold source texts; `observability` has `logs`, `traces` and `metrics`. `keep_on_failure_ms`: how
    long the environment of a failed run stays, 0 for not at all, None: as the suite says.
    """

    file_name: str = ""
    label: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    services: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    secret_refs: tuple[SecretRef, ...] = ()
    observability: Mapping[str, bool] = field(
        default_factory=lambda: dict.fromkeys(OBSERVABILITY, True)
    )
    keep_on_failure_ms: int | None = None
    modules: tuple[str, ...] = ()


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
    chain = chain_of(profiles, profile)
    env: dict[str, str] = {}
    services: dict[str, dict[str, str]] = {}
    secrets: dict[str, SecretRef] = {}
    observability = dict.fromkeys(OBSERVABILITY, True)
    modules: set[str] = set()
    keep_on_failure_ms: int | None = None
    for link in chain:
        _overlay(env, link.env)
        for step, own in link.services.items():
            _overlay(services.setdefault(step, {}), own)
        secrets |= {ref.key: ref for ref in link.secret_refs}
        observability |= link.observability
        modules |= set(link.modules)
        if link.keep_on_failure_ms is not None:
            keep_on_failure_ms = link.keep_on_failure_ms
    return LaunchProfile(
        file_name=profile.file_name,
        label=profile.label,
        env=env,
        services={step: own for step, own in services.items() if own},
        secret_refs=tuple(secrets.values()),
        observability=observability,
        keep_on_failure_ms=keep_on_failure_ms,
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


def chain_of(profiles: Sequence[Profile], profile: Profile) -> list[Profile]:
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
        file=profile.path,
    )
    return ProfileInvalid(_sentence(problem), errors=[problem])


def _sentence(problem: FieldError) -> str:
    place = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
    return f"{place}: {problem.detail}"


def with_chain_problem(profile: Profile, profiles: Sequence[Profile]) -> Profile:
    if profile.problem is None and profile.extends_id:
        try:
            chain_of(profiles, profile)
        except ProfileInvalid as error:
            return replace(profile, problem=error.errors[0])
    return profile
