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
    TagTaken,
)
from apps.oci.domain.reference import InvalidReference, Reference, parse_reference
from apps.oci.domain.repositories import (
    ConnectionReport,
    RegistryUnreachable,
    RegistryWarning,
    Repository,
    RepositoryError,
    SyncInProgress,
    SyncResult,
)
from apps.oci.domain.versions import chosen_tag, sorted_tags
from apps.oci.selectors import (
    find_repository,
    list_repositories,
    registry_warnings,
    stored_package,
)
from apps.oci.services.packages import pull, push
from apps.oci.services.sync import (
    assign_suite_id,
    due_registries,
    index_package,
    sync_due,
    sync_registry,
    test_connection,
)

__all__ = [
    "MODULE_TYPE",
    "SUITE_TYPE",
    "ConnectionReport",
    "DigestMismatch",
    "InvalidReference",
    "Package",
    "PackageNotFound",
    "PackageRefused",
    "Pushed",
    "Reference",
    "RegistryUnreachable",
    "RegistryWarning",
    "Repository",
    "RepositoryError",
    "SyncInProgress",
    "SyncResult",
    "TagTaken",
    "assign_suite_id",
    "chosen_tag",
    "due_registries",
    "find_repository",
    "index_package",
    "list_repositories",
    "parse_reference",
    "pull",
    "push",
    "registry_warnings",
    "sorted_tags",
    "stored_package",
    "sync_due",
    "sync_registry",
    "test_connection",
]
