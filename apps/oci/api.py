"""OCI registries: what they offer, pulled packages by digest, pushes. Knows nothing of suites."""

from __future__ import annotations

from apps.oci.domain.package import (
    MODULE_TYPE,
    SUITE_TYPE,
    DigestMismatch,
    Package,
    PackageNotFound,
    PackageRefused,
    Pushed,
)
from apps.oci.domain.reference import Reference, parse_reference
from apps.oci.domain.repositories import (
    RegistryUnreachable,
    Repository,
    RepositoryError,
    SyncResult,
)
from apps.oci.selectors import (
    find_repository,
    list_repositories,
    registry_warnings,
    stored_package,
)
from apps.oci.services.packages import pull, push
from apps.oci.services.sync import assign_suite_id, index_package, sync_registry, test_connection
