from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "apps.accounts"
    label = "accounts"
    encrypted_rows: ClassVar = {"second-factors": "apps.accounts.services.second_factor.ROWS"}
    lifespan_parts: ClassVar = {"accounts": "apps.accounts.lifespan.AccountsPart"}
