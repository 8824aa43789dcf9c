from __future__ import annotations

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "apps.catalog"
    label = "catalog"
    further_verbs = {"suite search": "apps.catalog.management.search.add_verbs"}
