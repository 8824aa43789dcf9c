"""The profile of a launch, merged with those that it extends (reference: control-plane 10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from apps.health.api import Probe, ProbeResult
from apps.suites import api as suites


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProfile:
    """A profile chain merged for a run; `file_name` is "" for a suite without profiles.

    `env` and `services` (step id or name to env) hold source texts, without unset keys;
    `observability` has `logs`, `traces` and `metrics`.
    """

    file_name: str
    label: str
    env: Mapping[str, str]
    services: Mapping[str, Mapping[str, str]]
    secret_refs: tuple[suites.SecretRef, ...]
    observability: Mapping[str, bool]
    modules: tuple[str, ...]


def select_profile(suite_id: str, requested: str = "") -> LaunchProfile:
    """Return the requested profile (file name or id), else the default one, else NO_PROFILE.

    The default is the first launchable profile flagged as default, else the first launchable one.
    Raise SuiteNotFound, ProfileNotInSuite, ProfileInvalid.
    """
    profiles = suites.profiles_of_suite(suite_id)
    if requested:
        profile = suites.find_profile(profiles, requested)
        if profile is None:
            raise suites.ProfileNotInSuite(suite_id, requested, profiles)
        return _merged(profiles, profile)
    default = suites.default_profile(profiles)
    if default is None:
        return NO_PROFILE
    return _merged(profiles, default)


def probe() -> ProbeResult:
    """Report ready when the profiles of every suite can be read, valid or not.

    An invalid profile affects only the launches of its suite; `detail` counts them.
    """
    try:
        profiles = suites.workspace_profiles()
    except OSError as error:
        detail = f"the folder of the suites cannot be read: {error.strerror}"
        return ProbeResult(ready=False, detail=detail)
    broken = sum(profile.problem is not None for profile in profiles)
    detail = f"{len(profiles)} profiles" + (f", {broken} of them invalid" if broken else "")
    return ProbeResult(ready=True, detail=detail)


PROBE: Final = Probe(name="profiles", required=True, check=probe)


def _merged(profiles: tuple[suites.Profile, ...], profile: suites.Profile) -> LaunchProfile:
    merged = suites.merge_chain(profiles, profile)
    return LaunchProfile(
        file_name=profile.file_name,
        label=profile.label,
        env=merged.env,
        services=merged.services,
        secret_refs=merged.secret_refs,
        observability=merged.observability,
        modules=merged.modules,
    )


NO_PROFILE = LaunchProfile(
    file_name="",
    label="",
    env={},
    services={},
    secret_refs=(),
    observability={"logs": True, "traces": True, "metrics": True},
    modules=(),
)
