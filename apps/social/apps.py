from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import import_string

from apps.social.conf import providers


class SocialConfig(AppConfig):
    """Sign-in at social providers, which django-allauth knows how to talk to."""

    name = "apps.social"
    sign_in_providers = "apps.social.selectors.sign_in_providers"

    def ready(self) -> None:
        """Refuse at the start what cannot work later; raise ImproperlyConfigured."""
        if providers():
            import_string("apps.social.services.check_providers")()
