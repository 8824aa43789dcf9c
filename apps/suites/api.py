"""Suites: packages of the workspace, their definitions and topologies.

Knows nothing of executions; everything here reads.
"""

from __future__ import annotations

from apps.suites.calls import container_kinds
from apps.suites.domain.definition import DefinitionDocument
from apps.suites.domain.flattening import ImportedSuite
from apps.suites.selectors import (
    PackageInvalid,
    ProfileVerdict,
    ResolvedSuite,
    SuiteNotFound,
    TopologyInvalid,
    check_profiles,
    copy_files,
    find_suite,
    get_definition,
    list_suites,
    resolve,
)

__all__ = [
    "DefinitionDocument",
    "ImportedSuite",
    "PackageInvalid",
    "ProfileVerdict",
    "ResolvedSuite",
    "SuiteNotFound",
    "TopologyInvalid",
    "check_profiles",
    "container_kinds",
    "copy_files",
    "find_suite",
    "get_definition",
    "list_suites",
    "resolve",
]
