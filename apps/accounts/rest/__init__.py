"""Authentication and permissions for the REST framework; `api` has the rest for other apps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission

from apps.accounts.domain.errors import Forbidden, Unauthenticated
from apps.accounts.domain.principal import Principal
from apps.accounts.services.authentication import authenticate_request

if TYPE_CHECKING:  # at run time the framework imports this module while it loads its own views
    from rest_framework.request import Request
    from rest_framework.views import APIView


class SessionAuthentication(BaseAuthentication):
    """Sets `request.user` to a Principal, unless the request has no credential."""

    def authenticate(self, request: Request) -> tuple[Principal, None] | None:
        principal = authenticate_request(request._request)  # noqa: SLF001 - Django's request
        return None if principal is None else (principal, None)

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class PrincipalMixin:
    """Gives a view that only principals may call the one that calls it."""

    request: Any  # the view's

    @property
    def principal(self) -> Principal:
        principal = self.request.user
        if not isinstance(principal, Principal):
            raise TypeError("the permission lets only principals through")
        return principal


class IsSignedIn(BasePermission):
    """Admits every principal; raises Unauthenticated."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.user, Principal):
            raise Unauthenticated("Sign in first")
        return True


class IsAdmin(IsSignedIn):
    """Admits administrators; raises Unauthenticated, Forbidden (admin_required)."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        super().has_permission(request, view)
        if not request.user.is_admin:  # type: ignore[union-attr]
            raise Forbidden("Only an administrator may do this")
        return True
