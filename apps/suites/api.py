"""Suites: packages of the workspace, their definitions and topologies.

Knows nothing of executions; everything here reads.
"""

from __future__ import annotations

from apps.suites.calls import container_kinds
from apps.suites.domain.definition import DefinitionDocument
from apps.suites.domain.profiles import (
    MergedProfile,
    Profile,
    ProfileInvalid,
    SecretRef,
    default_profile,
    find_profile,
    merge_chain,
    read_profile,
)
from apps.suites.selectors import (
    PackageInvalid,
    ProfileNotInSuite,
    ResolvedSuite,
    SuiteNotFound,
    TopologyInvalid,
    copy_files,
    find_suite,
    get_definition,
    list_suites,
    profiles_of_suite,
    resolve,
    workspace_profiles,
)

__all__ = [
    "DefinitionDocument",
    "MergedProfile",
    "PackageInvalid",
    "Profile",
    "ProfileInvalid",
    "ProfileNotInSuite",
    "ResolvedSuite",
    "SecretRef",
    "SuiteNotFound",
    "TopologyInvalid",
    "container_kinds",
    "copy_files",
    "default_profile",
    "find_profile",
    "find_suite",
    "get_definition",
    "list_suites",
    "merge_chain",
    "profiles_of_suite",
    "read_profile",
    "resolve",
    "workspace_profiles",
]
