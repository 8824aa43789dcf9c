"""Profiles: the merged profile of a launch. Depends on suites; does not know executions."""

from __future__ import annotations

from apps.profiles.selectors import LaunchProfile, select_profile
from apps.suites.api import ProfileInvalid, ProfileNotInSuite

__all__ = ["LaunchProfile", "ProfileInvalid", "ProfileNotInSuite", "select_profile"]
