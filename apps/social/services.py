"""Sign-in at a social provider through django-allauth, ending as single sign-on does.

Of allauth, its providers, state and PKCE are used, not its accounts: nothing is read from or
written to its tables. This module can be imported only where SOCIAL_PROVIDERS is set.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers import registry
from allauth.socialaccount.providers.base import AuthError, ProviderException
from allauth.socialaccount.providers.oauth2.provider import OAuth2Provider
from allauth.socialaccount.providers.oauth2.views import OAuth2Adapter, OAuth2CallbackView
from django.contrib.auth import SESSION_KEY
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from apps.accounts.api import (
    ExternalIdentity,
    ExternalSignInRefused,
    complete_sign_in,
    external_identity,
    failed_sign_in_url,
    safe_return_url,
)
from apps.social import conf

_RETURN_URL: Final = "social_return_url"  # in the session that holds allauth's state
_ATTEMPT_LIFE: Final = timedelta(minutes=10)
_log = logging.getLogger("partita.social")


class SettingsAdapter(DefaultSocialAccountAdapter):
    """Takes providers from the settings alone, and ends failures on our page."""

    def get_app(self, _request: HttpRequest, provider: str, _client_id: str | None = None) -> Any:
        return SocialApp(provider=provider, **conf.credentials(provider))

    def populate_user(
        self, _request: HttpRequest, sociallogin: SocialLogin, data: Mapping[str, Any]
    ) -> Any:
        names = (str(data.get(key) or "") for key in ("first_name", "last_name"))
        sociallogin.user.full_name = str(data.get("name") or " ".join(names)).strip()
        return sociallogin.user

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, **details: Any
    ) -> None:
        context = details.get("extra_context") or {}
        code = "oidc_provider_error"
        if error == AuthError.CANCELLED:
            code = "oidc_denied"
        elif "state_id" in context:  # no state of this browser has this id
            code = "oidc_state_invalid"
        else:
            cause = details.get("exception") or request.GET.get("error", "")
            _log.warning("The sign-in at %s failed: %s", provider.id, cause)
        raise ImmediateHttpResponse(_redirect_failure(code))


def check_providers() -> None:
    """Raise ImproperlyConfigured if one of the providers is not of OAuth 2."""
    registry.load()  # their apps may come after this one
    for name in conf.providers():
        found = registry.get_class(name)
        if found is None or not issubclass(found, OAuth2Provider):
            raise ImproperlyConfigured(f"SOCIAL_PROVIDERS={name!r}: it does not speak OAuth 2")


def begin(request: HttpRequest, provider: str, return_url: str) -> HttpResponse:
    """Send the browser to the provider, with a state and a PKCE verifier of its session."""
    if SESSION_KEY not in request.session:  # nobody is signed in: it serves this attempt alone
        request.session.set_expiry(_ATTEMPT_LIFE)
    request.session[_RETURN_URL] = safe_return_url(return_url, conf.return_origins())
    found = _provider(request, provider)
    response: HttpResponse = found.redirect(request, "login")
    return response


def finish(request: HttpRequest, provider: str) -> HttpResponse:
    """Take the provider's answer, sign its user in, and send the browser back."""
    view = OAuth2CallbackView.adapter_view(_adapter_of(_provider(request, provider)))
    response: HttpResponse = view(request)
    return response


def _provider(request: HttpRequest, name: str) -> Any:
    app = SettingsAdapter(request).get_app(request, name)
    provider = registry.get_class(name)(request, app=app)
    provider.pkce_enabled_default = True
    provider.oauth2_adapter_class = _adapter_of(provider)
    return provider


def _adapter_of(provider: Any) -> type[OAuth2Adapter]:
    """Return the provider's adapter with our address, which ends with our accounts."""
    base: Any = type(provider).oauth2_adapter_class

    class Adapter(base):
        def get_provider(self) -> Any:
            return provider

        def get_callback_url(self, _request: HttpRequest, _app: Any) -> str:
            return conf.callback_url(provider.id)

        def complete_login(self, request: HttpRequest, *arguments: Any, **options: Any) -> Any:
            try:
                login = super().complete_login(request, *arguments, **options)
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                raise ProviderException(f"its answer cannot be read: {error}") from error
            raise ImmediateHttpResponse(_signed_in(request, provider.id, login))

    return Adapter


def _signed_in(request: HttpRequest, provider: str, login: SocialLogin) -> HttpResponse:
    return_url = request.session.pop(_RETURN_URL, "/")
    try:
        target = complete_sign_in(
            request,
            _identity(provider, login),
            return_url=return_url,
            front_end=conf.frontend_callback_url(),
        )
    except ExternalSignInRefused as refusal:
        return _redirect_failure(refusal.problem_code)
    return HttpResponseRedirect(target)


def _identity(provider: str, login: SocialLogin) -> ExternalIdentity:
    """Take the primary address among the verified ones, else among all."""
    ranked = sorted(login.email_addresses, key=lambda one: (not one.verified, not one.primary))
    return external_identity(
        provider,
        subject=login.account.uid,
        email=ranked[0].email if ranked else "",
        email_verified=bool(ranked) and ranked[0].verified,
        full_name=login.user.full_name,
    )


def _redirect_failure(code: str) -> HttpResponse:
    return HttpResponseRedirect(failed_sign_in_url(code, conf.frontend_callback_url()))
