"""Scopes of API tokens: how much of its owner's rights a token has."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from apps.accounts.domain.roles import Role

API_TOKEN_PREFIX: Final = "pat_"  # noqa: S105 - not a secret


def is_api_token(token: str) -> bool:
    """Return whether a bearer token looks like one."""
    return token.startswith(API_TOKEN_PREFIX)


class TokenScope(StrEnum):
    """What a token may do; never more than its owner."""

    READ = "read"
    RUN = "run"
    ADMIN = "admin"

    @property
    def role(self) -> Role:
        """The highest role that the token has in a workspace."""
        return _ROLES[self]


_ROLES: Final = {
    TokenScope.READ: Role.VIEWER,
    TokenScope.RUN: Role.RUNNER,
    TokenScope.ADMIN: Role.ADMIN,
}
