"""Who may call the API is decided by `accounts`, which lies above this app.

Django REST framework resolves its defaults when it is imported; these stand in and look the real
ones up (settings.API_AUTHENTICATION, settings.API_PERMISSION) at the first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.module_loading import import_string
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission

from apps.system import conf

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView


class ApiAuthentication(BaseAuthentication):
    def __init__(self) -> None:
        self._real: BaseAuthentication = import_string(conf.api_authentication())()

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        return self._real.authenticate(request)

    def authenticate_header(self, request: Request) -> str | None:
        return self._real.authenticate_header(request)


class ApiPermission(BasePermission):
    def __init__(self) -> None:
        self._real: BasePermission = import_string(conf.api_permission())()

    def has_permission(self, request: Request, view: APIView) -> bool:
        return self._real.has_permission(request, view)
