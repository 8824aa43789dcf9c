from __future__ import annotations

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "apps.catalog"
    label = "catalog"

    def ready(self) -> None:
        from apps.operations.api import further_verbs

        further_verbs.register_path("suite search", "apps.catalog.management.search.add_verbs")
