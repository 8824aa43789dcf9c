"""Reads: which social providers there are."""

from __future__ import annotations

from django.urls import reverse
from django.utils.module_loading import import_string

from apps.accounts.api import SignInProvider, sign_in_provider
from apps.social import conf


def sign_in_providers() -> list[SignInProvider]:
    """Return the providers of SOCIAL_PROVIDERS, also those that something is missing for."""
    found = conf.providers()
    if not found:
        return []
    registry = import_string("allauth.socialaccount.providers.registry")  # it is installed now
    return [
        sign_in_provider(
            name,
            registry.get_class(name).name,
            start_url=reverse("social:login", args=[name]),
            missing=missing,
        )
        for name, missing in found.items()
    ]
