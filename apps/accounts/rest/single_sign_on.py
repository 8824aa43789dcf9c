"""`/api/v1/auth/sso` and `/oidc`: sign-in at an OpenID provider (reference: control-plane 3).

The browser leaves with a signed state cookie and comes back with a code. What it learns in the end
stands behind the `#` of an address, which no server logs; a token never does.
"""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpResponseRedirect
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts import conf
from apps.accounts.domain.errors import ExternalSignInRefused, Unauthenticated
from apps.accounts.rest import serializers as wire
from apps.accounts.rest.views import PublicView, signed_in_response
from apps.accounts.selectors import sign_in_providers
from apps.accounts.services import oidc
from apps.accounts.services.external_accounts import (
    complete_sign_in,
    failed_sign_in_url,
    limit_external_sign_in,
    redeem_exchange_code,
)
from apps.accounts.services.rate_limits import SIGN_IN, limit_by_ip
from kernel.errors import PlatformError

_COOKIE_PATH: Final = "/api/v1/auth/oidc"
_TOLD: Final = frozenset(  # the codes that the front end is told; others are the server's
    {
        "oidc_state_invalid",
        "oidc_denied",
        "oidc_email_missing",
        "oidc_email_unverified",
        "oidc_provider_error",
        "sign_up_disabled",
        "account_disabled",
    }
)


class ProvidersView(PublicView):
    @extend_schema(operation_id="auth_sso_providers", responses=wire.ProvidersResponse)
    def get(self, request: Request) -> Response:
        shown = wire.ProvidersResponse({"providers": sign_in_providers()})
        return Response(shown.data)


class OidcLoginView(PublicView):
    query_parameters = frozenset({"return_url", "flow"})

    @extend_schema(
        operation_id="auth_oidc_login",
        parameters=[OpenApiParameter("return_url", str), OpenApiParameter("flow", str)],
        responses={302: None},
    )
    def get(self, request: Request) -> HttpResponseRedirect:
        configured = oidc.require_provider()
        limit_external_sign_in(request)
        query = request.query_params
        redirect = oidc.begin_sign_in(query.get("return_url", "/"), query.get("flow", ""))
        response = HttpResponseRedirect(redirect.url)
        response.set_cookie(
            configured.state_cookie,
            redirect.cookie,
            max_age=conf.OIDC_STATE_LIFE,
            path=_COOKIE_PATH,
            secure=configured.is_secure,
            httponly=True,
            samesite="Lax",
        )
        return _forbid_storing(response)


class OidcCallbackView(PublicView):
    """Accepts any query parameters: the provider chooses them."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        APIView.initial(self, request, *args, **kwargs)

    @extend_schema(operation_id="auth_oidc_callback", responses={302: None})
    def get(self, request: Request) -> HttpResponseRedirect:
        configured = oidc.require_provider()
        limit_external_sign_in(request)
        attempt = oidc.read_attempt(request.COOKIES.get(configured.state_cookie, ""))
        try:
            response = self._finish(request, attempt)
        except PlatformError as error:
            if error.problem_code not in _TOLD:
                raise
            page = _front_end(configured, attempt)
            response = HttpResponseRedirect(failed_sign_in_url(error.problem_code, page))
        response.delete_cookie(configured.state_cookie, path=_COOKIE_PATH, samesite="Lax")
        return _forbid_storing(response)

    def _finish(self, request: Request, attempt: oidc.SignInAttempt | None) -> HttpResponseRedirect:
        configured = oidc.require_provider()
        identity = oidc.finish_sign_in(attempt, request.query_params)
        if attempt is None:
            raise ExternalSignInRefused("no sign-in was begun", code="oidc_state_invalid")
        is_cookie_flow = attempt.flow == oidc.COOKIE
        target = complete_sign_in(
            request._request,  # noqa: SLF001 - Django's request
            identity,
            return_url=attempt.return_url,
            front_end="" if is_cookie_flow else configured.frontend_callback_url,
        )
        return HttpResponseRedirect(target)


class OidcExchangeView(PublicView):
    @extend_schema(
        operation_id="auth_oidc_exchange",
        request=wire.OidcExchangeInput,
        responses=wire.AuthResponse,
    )
    def post(self, request: Request) -> Response:
        limit_by_ip(request, SIGN_IN)
        pair = redeem_exchange_code(self.body(wire.OidcExchangeInput)["code"])
        if pair is None:
            raise Unauthenticated("the one-time code is not valid", code="code_invalid")
        return signed_in_response(pair)


def _front_end(configured: conf.OidcSettings, attempt: oidc.SignInAttempt | None) -> str:
    """Return the front end that is told of a failure; empty: our own page."""
    is_cookie_flow = attempt is not None and attempt.flow == oidc.COOKIE
    return "" if is_cookie_flow else configured.frontend_callback_url


def _forbid_storing(response: HttpResponseRedirect) -> HttpResponseRedirect:
    response["Cache-Control"] = "no-store"
    return response
