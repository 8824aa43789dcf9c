from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "apps.accounts"
    label = "accounts"
    lifespan_parts: ClassVar = {"accounts": "apps.accounts.lifespan.AccountsPart"}
