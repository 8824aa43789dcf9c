"""Whose things a caller may see."""

from __future__ import annotations

from uuid import UUID

from apps.accounts.domain.principal import Principal
from kernel.errors import FieldError, InvalidInput


def visible_workspaces(
    principal: Principal, requested: str | None = None
) -> frozenset[UUID] | None:
    """List the workspaces whose things to show; None = all of them, which only admins get.

    `requested` is the query parameter `workspaceId`. A member who asks for another workspace gets
    the empty set: it looks like one that does not exist. Raises InvalidInput (invalid_parameter).
    """
    own = frozenset({principal.workspace_id})
    if not requested:
        return None if principal.is_admin else own
    wanted = frozenset({_workspace_id(requested)})
    return wanted if principal.is_admin else wanted & own


def _workspace_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        detail = "workspaceId must be a UUID"
        error = FieldError(pointer="workspaceId", code="invalid_value", detail=detail)
        raise InvalidInput(detail, code="invalid_parameter", errors=[error]) from None
