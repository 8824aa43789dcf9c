"""Who acts when a command is run beside the store: the operator of the machine."""

from __future__ import annotations

from datetime import timedelta

from apps.accounts import conf
from apps.accounts.domain.principal import Principal
from apps.accounts.models import User
from apps.accounts.services.sign_up import ensure_seed_admin
from kernel import clock
from kernel.errors import PlatformError


class NoAdministrator(PlatformError):
    """Commands act as the first administrator, and the store has none yet."""

    code = "unauthenticated"


def operator() -> Principal:
    """The principal of the oldest active administrator, made first where the settings name one.

    Raises NoAdministrator.
    """
    ensure_seed_admin()
    user = User.objects.filter(is_admin=True, is_active=True).order_by("created_at").first()
    if user is None:
        raise NoAdministrator(
            "the store has no administrator yet: start `up` once, or set ADMIN_EMAIL and "
            "ADMIN_PASSWORD for the control plane"
        )
    return Principal(
        user_id=user.id,
        workspace_id=user.workspace_id,
        is_admin=True,
        full_name=user.full_name,
        email=user.email,
        expires_at=clock.now() + timedelta(hours=1),
    )


def seed_admin_credentials() -> tuple[str, str]:
    """Mail and password that the settings name for the first administrator, for `up` to show."""
    return conf.seed_admin()
