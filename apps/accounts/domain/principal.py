"""The caller of a request, and the workspaces that the caller may see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from apps.accounts.domain.errors import Forbidden
from apps.accounts.domain.roles import Role
from kernel.ci_trust import reaches_suite
from kernel.errors import FieldError, InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A signed-in account and its credential.

    `is_admin`, `workspace_id`, `role` (in that workspace) and the names come from the store, never
    from the token. Administrators of the installation have every role everywhere. Exactly one
    of `token_jti` (access token), `session_hash` (UI session), `api_token_hash` and
    `ci_session_hash` is set; `expires_at` is the end of that credential. A stream ticket yields the
    principal that requested it.

    A CI session belongs to no account: `user_id` is that of the jobs of its rule and repository,
    `full_name` says which job it is, and `suites` limits it; None is no limit.
    """

    user_id: UUID
    workspace_id: UUID
    is_admin: bool
    full_name: str
    email: str
    expires_at: datetime
    role: Role = Role.VIEWER
    ceiling: Role = Role.ADMIN  # an API token has no more in any workspace
    token_jti: str = ""
    session_hash: str = ""
    api_token_hash: str = ""
    ci_session_hash: str = ""
    suites: tuple[str, ...] | None = None

    @property
    def key(self) -> str:
        """The key for limits: one account, whatever its credential."""
        return str(self.user_id)

    @property
    def label(self) -> str:
        """Return the name with the address: `Ada Lovelace (ada@example.org)`."""
        if not self.email:
            return self.full_name
        return f"{self.full_name} ({self.email})" if self.full_name else self.email

    @property
    def ci_job(self) -> str:
        """Return the CI job whose session this is, in words; "" for anybody else."""
        return self.full_name if self.ci_session_hash else ""

    @property
    def is_program(self) -> bool:
        """Return whether the credential is made for programs, which no page lets in."""
        return bool(self.api_token_hash or self.ci_session_hash)

    def require_suite(self, suite_id: str) -> None:
        """Raise Forbidden (suite_refused) for a suite that the credential does not reach."""
        if self.suites is not None and not reaches_suite(self.suites, suite_id):
            raise Forbidden(
                "the trust rule of this CI session does not name this suite; an administrator can "
                "add it to the rule's suites on /settings/ci",
                code="suite_refused",
            )

    def has_role(self, role: Role) -> bool:
        return self.is_admin or self.role.includes(role)

    def require(self, role: Role) -> None:
        """Raise Forbidden (role_required) without `role` in the workspace."""
        if not self.has_role(role):
            raise Forbidden(
                f"you are a {self.role} of this workspace; this needs the role {role}",
                code="role_required",
            )

    def require_session(self) -> None:
        """Raise Forbidden (session_required) for an API token or a CI session."""
        if self.is_program:
            what = "an API token" if self.api_token_hash else "a CI session"
            raise Forbidden(f"{what} may not do this; sign in", code="session_required")

    def with_role(self, role: Role) -> Principal:
        """Return the same caller with this role, that of another workspace, below the ceiling."""
        return replace(self, role=role if self.ceiling.includes(role) else self.ceiling)

    @property
    def is_authenticated(self) -> bool:
        """Return True: the REST framework asks each user."""
        return True


def visible_workspaces(
    principal: Principal, requested: str | None = None
) -> frozenset[UUID] | None:
    """Return the workspaces to show; None means all of them, for administrators only.

    `requested` is the query parameter `workspaceId`. A member who requests another workspace gets
    the empty set, as if that workspace did not exist. Raise InvalidInput (invalid_parameter).
    """
    own = frozenset({principal.workspace_id})
    if not requested:
        return None if principal.is_admin else own
    try:
        wanted = frozenset({UUID(requested)})
    except ValueError:
        detail = "workspaceId must be a UUID"
        error = FieldError(pointer="/workspaceId", code="invalid_value", detail=detail)
        raise InvalidInput(detail, code="invalid_parameter", errors=[error]) from None
    return wanted if principal.is_admin else wanted & own
