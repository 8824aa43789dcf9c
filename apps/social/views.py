"""`/accounts/{provider}/login/` and its callback (reference: control-plane 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from apps.accounts.api import limit_external_sign_in
from apps.social import conf
from kernel.errors import NotFound

_SERVICES: Final = "apps.social.services"  # imported when it is needed: it needs django-allauth


@require_GET
@never_cache
def login(request: HttpRequest, provider: str) -> HttpResponse:
    _require(provider)
    limit_external_sign_in(request)
    begin: Callable[..., HttpResponse] = import_string(f"{_SERVICES}.begin")
    return begin(request, provider, request.GET.get("return_url", "/"))


@require_GET
@never_cache
def callback(request: HttpRequest, provider: str) -> HttpResponse:
    _require(provider)
    limit_external_sign_in(request)
    finish: Callable[..., HttpResponse] = import_string(f"{_SERVICES}.finish")
    return finish(request, provider)


def _require(provider: str) -> None:
    """Raise NotFound, which names what is not set."""
    known = conf.providers()
    if provider not in known:
        raise NotFound(f"there is no sign-in with {provider!r}: SOCIAL_PROVIDERS does not name it")
    if missing := known[provider]:
        raise NotFound(f"the sign-in with {provider} needs {' and '.join(missing)}")
