"""Suites: packages of the workspace, their definitions and topologies.

Knows nothing of executions. `lock_suite` writes a file of the workspace, `register_suite` and
`remove_suite` rows; all others only read.
"""

from __future__ import annotations

from apps.suites.calls import container_kinds
from apps.suites.domain.definition import DefinitionDocument
from apps.suites.domain.dependencies import FILES as DEPENDENCY_FILES
from apps.suites.domain.flattening import ImportedSuite
from apps.suites.lock_differences import LockComparison
from apps.suites.locking import NewLock
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
    lint_suite,
    list_suites,
    lock_difference,
    lock_suite,
    resolve,
    source_problems,
)
from apps.suites.services.registration import (
    SuiteExists,
    SuiteInUse,
    SuiteText,
    register_suite,
    remove_suite,
    suite_users,
)
from apps.suites.services.sharing import pull_suite, push_suite, push_warnings

__all__ = [
    "DEPENDENCY_FILES",
    "DefinitionDocument",
    "ImportedSuite",
    "LockComparison",
    "NewLock",
    "PackageInvalid",
    "ProfileVerdict",
    "ResolvedSuite",
    "SuiteExists",
    "SuiteInUse",
    "SuiteNotFound",
    "SuiteText",
    "TopologyInvalid",
    "check_profiles",
    "container_kinds",
    "copy_files",
    "find_suite",
    "get_definition",
    "lint_suite",
    "list_suites",
    "lock_difference",
    "lock_suite",
    "pull_suite",
    "push_suite",
    "push_warnings",
    "register_suite",
    "remove_suite",
    "resolve",
    "source_problems",
    "suite_users",
]
