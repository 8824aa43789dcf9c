"""Suites: packages of the workspace, their definitions and topologies.

Knows nothing of executions. `lock_suite` writes a file of the workspace; all others only read.
"""

from __future__ import annotations

from apps.suites.calls import container_kinds
from apps.suites.domain.definition import DefinitionDocument
from apps.suites.domain.dependencies import FILES as DEPENDENCY_FILES
from apps.suites.domain.flattening import ImportedSuite
from apps.suites.evaluator.module_docs import FunctionInfo, ModuleInfo, built_in_modules
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
    lock_suite,
    resolve,
)

__all__ = [
    "DEPENDENCY_FILES",
    "DefinitionDocument",
    "FunctionInfo",
    "ImportedSuite",
    "ModuleInfo",
    "NewLock",
    "PackageInvalid",
    "ProfileVerdict",
    "ResolvedSuite",
    "SuiteNotFound",
    "TopologyInvalid",
    "built_in_modules",
    "check_profiles",
    "container_kinds",
    "copy_files",
    "find_suite",
    "get_definition",
    "lint_suite",
    "list_suites",
    "lock_suite",
    "resolve",
]
