"""What the catalog unites, as the apps below have it: repositories, suites, built-in modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apps.catalog.domain.merits import merits_of
from apps.catalog.domain.packages import (
    AdvertisedRepository,
    BuiltInModule,
    CatalogWarning,
    KnownSuite,
)
from apps.oci import api as oci
from apps.platform_settings import api as platform_settings
from apps.suites import api as suites
from kernel import clock
from kernel.version import VERSION

WORKSPACE: Final = "Workspace"  # the provider of suites that no registry has


def providers() -> dict[str, str]:
    """Return registry id → provider, in the order of the settings."""
    return {each.registry_id: each.provider for each in platform_settings.registries()}


def advertised_repositories(providers: Mapping[str, str]) -> list[AdvertisedRepository]:
    """Return the stored index of these registries, in the order of the settings."""
    return [
        _repository(each, providers[each.registry_id])
        for each in oci.list_repositories()
        if each.registry_id in providers
    ]


def known_suites() -> list[KnownSuite]:
    """Return the suites of the library, those of registries last: an own suite is preferred."""
    found = [_suite(definition) for definition in suites.list_suites()]
    return sorted(found, key=lambda suite: (suite.is_remote, suite.suite_id))


def built_in_modules() -> list[BuiltInModule]:
    return [
        BuiltInModule(name=each.name, description=each.description, version=VERSION)
        for each in suites.built_in_modules()
    ]


def warnings() -> list[CatalogWarning]:
    """Return the registries whose last sync failed."""
    return [
        {"registryId": each.registry_id, "code": each.code, "detail": each.detail}
        for each in oci.registry_warnings()
    ]


def _repository(found: oci.Repository, provider: str) -> AdvertisedRepository:
    return AdvertisedRepository(
        registry_id=found.registry_id,
        provider=provider,
        host=found.host,
        path=found.path,
        tags=found.tags,
        version=found.version,
        digest=found.digest,
        is_module=found.artifact_type == oci.MODULE_TYPE,
        is_pulled=found.pulled,
        suite_id=found.suite_id,
        error=found.error_detail,
        seen_at=clock.rfc3339(found.seen_at),
    )


def _suite(definition: suites.DefinitionDocument) -> KnownSuite:
    return KnownSuite(
        suite_id=definition["id"],
        title=definition["title"],
        repository=definition["repository"],
        owner=definition["owner"],
        provider=definition["provider"],
        version=definition["version"],
        description=definition["description"],
        modules=tuple(definition["modules"]),
        score=definition["score"],
        launchable=definition["launchable"],
        is_remote=definition["provider"] != WORKSPACE,
        sources=tuple(definition.get("sources", ())),
        merits=merits_of(definition),
    )
