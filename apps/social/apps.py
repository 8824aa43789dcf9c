from __future__ import annotations

from django.apps import AppConfig


class SocialConfig(AppConfig):
    """Sign-in at social providers, which django-allauth knows how to talk to."""

    name = "apps.social"
    sign_in_providers = "apps.social.selectors.sign_in_providers"
