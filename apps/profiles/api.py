"""Profiles: the profile files of a suite, and the merged profile of a launch.

Knows neither suites nor executions; the callers pass the files.
"""

from __future__ import annotations

from apps.profiles.domain.profiles import (
    LaunchProfile,
    Profile,
    ProfileInvalid,
    ProfileNotInSuite,
    SecretRef,
    default_profile,
    profiles_of,
    select_profile,
)

__all__ = [
    "LaunchProfile",
    "Profile",
    "ProfileInvalid",
    "ProfileNotInSuite",
    "SecretRef",
    "default_profile",
    "profiles_of",
    "select_profile",
]
