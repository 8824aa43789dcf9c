"""Suites: packages of the workspace, their definitions and topologies.

Knows nothing of executions. `lock_suite` writes a file of the workspace, `register_suite` and
`remove_suite` rows; all others only read.
"""

from __future__ import annotations

from apps.suites.authoring.checks import ProfileVerdict, check_profiles, lint_mocks_of, lint_suite
from apps.suites.authoring.locks import LockComparison, lock_difference, lock_suite, suites_to_lock
from apps.suites.authoring.suite_files import (
    FormattedFile,
    copy_files,
    format_files,
    new_suite,
    starters,
    workspace_folder,
    write_formatted,
)
from apps.suites.calls import container_kinds
from apps.suites.dependencies.lock_file import LockedDependency, NewLock
from apps.suites.domain.definition import DefinitionDocument, Suite
from apps.suites.domain.dependencies import FILES as DEPENDENCY_FILES
from apps.suites.domain.differences import Change, LockDifference
from apps.suites.domain.flat_topology import ImportedSuite
from apps.suites.evaluator.module_docs import FunctionInfo, ModuleInfo, built_in_modules
from apps.suites.evaluator.process import keep_evaluations
from apps.suites.profiles import (
    NO_STORE,
    ProfilesChanged,
    ProfileSummary,
    SuiteProfilesDocument,
    current_profiles,
    profile_edit,
    profile_summary,
    profiles_document,
    suite_profiles,
    use_files_without_store,
)
from apps.suites.selectors import (
    PackageInvalid,
    ResolvedSuite,
    SuiteNotFound,
    TopologyInvalid,
    current_suites,
    every_suite,
    find_suite,
    find_suite_by_id,
    focus_on,
    get_definition,
    hydrated_surfaces,
    list_suites,
    read_every_suite,
    resolve,
    resolve_suite,
    source_problems,
    suite_from_files,
)
from apps.suites.services.registration import (
    SuiteExists,
    SuiteInUse,
    SuiteText,
    register_suite,
    remove_suite,
    require_registration,
    suite_users,
)
from apps.suites.services.transfers import pull_suite, push_module, push_suite, push_warnings

__all__ = [
    "DEPENDENCY_FILES",
    "NO_STORE",
    "Change",
    "DefinitionDocument",
    "FormattedFile",
    "FunctionInfo",
    "ImportedSuite",
    "LockComparison",
    "LockDifference",
    "LockedDependency",
    "ModuleInfo",
    "NewLock",
    "PackageInvalid",
    "ProfileSummary",
    "ProfileVerdict",
    "ProfilesChanged",
    "ResolvedSuite",
    "Suite",
    "SuiteExists",
    "SuiteInUse",
    "SuiteNotFound",
    "SuiteProfilesDocument",
    "SuiteText",
    "TopologyInvalid",
    "built_in_modules",
    "check_profiles",
    "container_kinds",
    "copy_files",
    "current_profiles",
    "current_suites",
    "every_suite",
    "find_suite",
    "find_suite_by_id",
    "focus_on",
    "format_files",
    "get_definition",
    "hydrated_surfaces",
    "keep_evaluations",
    "lint_mocks_of",
    "lint_suite",
    "list_suites",
    "lock_difference",
    "lock_suite",
    "new_suite",
    "profile_edit",
    "profile_summary",
    "profiles_document",
    "pull_suite",
    "push_module",
    "push_suite",
    "push_warnings",
    "read_every_suite",
    "register_suite",
    "remove_suite",
    "require_registration",
    "resolve",
    "resolve_suite",
    "source_problems",
    "starters",
    "suite_from_files",
    "suite_profiles",
    "suite_users",
    "suites_to_lock",
    "use_files_without_store",
    "workspace_folder",
    "write_formatted",
]
