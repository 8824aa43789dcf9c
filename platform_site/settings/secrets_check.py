"""The one secret that the control plane cannot start without."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured

from platform_site.settings.keys import MIN_SECRET_BYTES


def require_jwt_secret(secret: str) -> None:
    if len(secret.encode()) < MIN_SECRET_BYTES or secret == "change-me":
        raise ImproperlyConfigured(
            f"JWT_SECRET must be set to at least {MIN_SECRET_BYTES} bytes, for example the output "
            "of: python -c 'import secrets; print(secrets.token_urlsafe(48))'"
        )
