"""How `django.contrib.auth.authenticate` checks a password: by the rules of every sign-in."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.backends import BaseBackend
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from apps.accounts.domain.errors import Unauthenticated
from apps.accounts.models import User
from apps.accounts.services.sign_in import sign_in
from apps.http.api import client_ip
from kernel.errors import PlatformError


class PasswordBackend(BaseBackend):
    """Counts failures and locks like `/sign-in`; disabled accounts stay out."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **_other: object,
    ) -> User | None:
        """Return the account; None for a wrong password. Raise PermissionDenied when refused."""
        if username is None or password is None:
            return None
        ip = client_ip(request) if request is not None else ""
        try:
            return sign_in(email=username, password=password, ip=ip)
        except Unauthenticated:
            return None
        except PlatformError as error:
            raise PermissionDenied(error.detail) from None

    def get_user(self, user_id: UUID | str) -> User | None:
        return User.objects.active().filter(pk=user_id).first()
