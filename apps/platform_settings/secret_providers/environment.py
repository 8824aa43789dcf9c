"""Secrets of the platform itself: an override, or a variable of the allowed prefix."""

from __future__ import annotations

from apps.platform_settings import conf
from apps.platform_settings.domain.secrets import (
    ManagerFailed,
    NoSuchValue,
    SecretManagers,
    secret_providers,
)
from apps.platform_settings.services.effective import global_overrides


class EnvironmentProvider:
    names = ("local", "secrets")
    title = "Overrides and PARTITA_SECRET_ variables"

    def takes(self, provider: str, ref: str) -> bool:
        """Take what people call local: `Local Secret`, `local-secrets`."""
        return provider.startswith("local-")

    def value(self, _managers: SecretManagers, ref: str) -> str:
        overrides = {each.key: each.value for each in global_overrides()}
        value = overrides.get(ref) or conf.secret_variable(ref)
        if value is None:
            raise NoSuchValue("no override and no PARTITA_SECRET_ variable has that name")
        return value

    def check(self, _managers: SecretManagers) -> str:
        count = conf.secret_variable_count()
        if not count and not global_overrides():
            raise ManagerFailed("there is no override and no PARTITA_SECRET_ variable")
        return f"{count} PARTITA_SECRET_ variables and {len(global_overrides())} overrides"


secret_providers.register("environment")(EnvironmentProvider())
