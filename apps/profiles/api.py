"""Profiles: the profile files of a suite, stored profiles, and the merged profile of a launch.

Knows neither suites nor executions; the callers pass the files.
"""

from __future__ import annotations

from apps.profiles.domain.drafts import Draft, ProfileDuplicate
from apps.profiles.domain.explanation import (
    ExplainedValue,
    Layer,
    env_layers,
    explain_chain,
    explain_section,
    service_layers,
)
from apps.profiles.domain.plain_secrets import looks_secret
from apps.profiles.domain.profile_file import Seed, keep_on_failure_ms, profiles_of, seeds_of
from apps.profiles.domain.profiles import (
    KEEP_MAX_MS,
    LaunchProfile,
    Profile,
    ProfileInvalid,
    ProfileNotInSuite,
    SecretRef,
    SecretRefDocument,
    chain_of,
    default_profile,
    find_profile,
    merge_chain,
    select_profile,
)
from apps.profiles.domain.records import (
    ProfileRecordDocument,
    ProfileSet,
    StoredProfiles,
    profile_set,
    record_document,
    warnings_of,
)
from apps.profiles.selectors import stored_generation, stored_profiles, stored_profiles_of
from apps.profiles.services.profiles_file import file_problem, import_profiles_file
from apps.profiles.services.records import (
    Edit,
    Preview,
    ProfileInUse,
    ProfileNotFound,
    ProfileNotLaunchable,
    Written,
    create_profile,
    delete_profile,
    make_default,
    may_write,
    preview_profile,
    replace_profile,
    require_profile,
    require_writer,
)

__all__ = [
    "KEEP_MAX_MS",
    "Draft",
    "Edit",
    "ExplainedValue",
    "LaunchProfile",
    "Layer",
    "Preview",
    "Profile",
    "ProfileDuplicate",
    "ProfileInUse",
    "ProfileInvalid",
    "ProfileNotFound",
    "ProfileNotInSuite",
    "ProfileNotLaunchable",
    "ProfileRecordDocument",
    "ProfileSet",
    "SecretRef",
    "SecretRefDocument",
    "Seed",
    "StoredProfiles",
    "Written",
    "chain_of",
    "create_profile",
    "default_profile",
    "delete_profile",
    "env_layers",
    "explain_chain",
    "explain_section",
    "file_problem",
    "find_profile",
    "import_profiles_file",
    "keep_on_failure_ms",
    "looks_secret",
    "make_default",
    "may_write",
    "merge_chain",
    "preview_profile",
    "profile_set",
    "profiles_of",
    "record_document",
    "replace_profile",
    "require_profile",
    "require_writer",
    "seeds_of",
    "select_profile",
    "service_layers",
    "stored_generation",
    "stored_profiles",
    "stored_profiles_of",
    "warnings_of",
]
