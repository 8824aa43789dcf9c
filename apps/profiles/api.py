"""Profiles: which one a launch uses, merged. Depends on suites; knows nothing of executions."""

from __future__ import annotations

from apps.profiles.selectors import LaunchProfile, select_profile
from apps.suites.api import ProfileInvalid, ProfileNotInSuite

__all__ = ["LaunchProfile", "ProfileInvalid", "ProfileNotInSuite", "select_profile"]
