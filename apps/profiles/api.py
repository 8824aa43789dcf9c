"""Profiles: the profile files of a suite, stored profiles, and the merged profile of a launch.

Knows neither suites nor executions; the callers pass the files.
"""

from __future__ import annotations

from apps.profiles.domain.drafts import Draft
from apps.profiles.domain.explanation import (
    ExplainedValue,
    Layer,
    env_layers,
    explain_chain,
    explain_section,
    service_layers,
)
from apps.profiles.domain.profile_file import keep_on_failure_ms, profiles_of, seeds_of
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
    looks_secret,
    profile_set,
    record_document,
    warnings_of,
)
from apps.profiles.selectors import stored_generation, stored_profiles, stored_profiles_of
from apps.profiles.services.profiles_file import file_problem
from apps.profiles.services.records import (
    Edit,
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
