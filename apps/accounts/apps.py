from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "apps.accounts"
    label = "accounts"

    def ready(self) -> None:
        from apps.operations.api import lifespan_parts

        lifespan_parts.register_path("accounts", "apps.accounts.lifespan.AccountsPart")
