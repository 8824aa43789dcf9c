"""Suites: packages of the workspace, their definitions and topologies.

Knows nothing of executions, and names what other apps ask for; all of it only reads.
"""

from __future__ import annotations

from apps.suites.authoring.checks import lint_mocks_of
from apps.suites.authoring.locks import lock_difference
from apps.suites.authoring.suite_files import workspace_folder
from apps.suites.calls import container_kinds
from apps.suites.domain.definition import DefinitionDocument, Suite
from apps.suites.domain.dependencies import FILES as DEPENDENCY_FILES
from apps.suites.evaluator.module_docs import ModuleInfo, built_in_modules
from apps.suites.profiles import (
    NO_STORE,
    ProfilesChanged,
    SuiteProfilesDocument,
    current_profiles,
    profile_edit,
    profile_summary,
    profiles_document,
    use_files_without_store,
)
from apps.suites.selectors import (
    ResolvedSuite,
    SuiteNotFound,
    current_suites,
    every_suite,
    find_suite,
    find_suite_by_id,
    get_definition,
    hydrated_surfaces,
    list_suites,
    resolve_suite,
    suite_from_files,
)
