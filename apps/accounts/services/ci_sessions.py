"""Sessions of CI jobs: whose they are, and when they end (reference: control-plane 3)."""

from __future__ import annotations

from django.apps import apps
from django.utils.module_loading import import_string

from apps.accounts.domain.ci_sessions import rule_digest
from apps.accounts.domain.errors import Unauthenticated
from apps.accounts.domain.principal import Principal
from apps.accounts.domain.roles import Role
from apps.accounts.domain.tokens import hash_token
from apps.accounts.models import CiSession
from kernel.ci_trust import TrustRule
from kernel.clock import now


def trust_rules() -> tuple[TrustRule, ...]:
    """Return the rules that an app names (`ci_trust` of its config), in their order."""
    named = [getattr(config, "ci_trust", None) for config in apps.get_app_configs()]
    return tuple(rule for path in filter(None, named) for rule in import_string(path)())


def session_note(row: CiSession) -> str:
    """Return whose session it is, for audit records."""
    return f"CI session {row.pk} by rule {row.rule_name}: {row.job}"


def ci_session_row(token: str) -> CiSession:
    """Return the session of a presented token; raise Unauthenticated.

    A session of a rule that has been changed or removed has ended.
    """
    row = CiSession.objects.filter(token_hash=hash_token(token)).first()
    if row is None or row.ended_at is not None:
        raise Unauthenticated("the CI session is unknown or has ended", code="token_revoked")
    if row.expires_at <= now():
        raise Unauthenticated("the CI session has expired", code="token_expired")
    if not _is_of_a_rule(row):
        raise Unauthenticated("the trust rule of the CI session has changed", code="token_revoked")
    return row


def is_ci_session_alive(principal: Principal) -> bool:
    """Read from the store whether the session of this caller goes on."""
    row = CiSession.objects.filter(token_hash=principal.ci_session_hash, ended_at=None).first()
    return row is not None and row.expires_at > now() and _is_of_a_rule(row)


def end_ci_session(token_hash: str) -> None:
    """End a session; its row stays as long as the job's token could be used again."""
    CiSession.objects.filter(token_hash=token_hash, ended_at=None).update(ended_at=now())


def ci_principal(row: CiSession) -> Principal:
    """Return who the job is: nobody's account, with the role and suites of its rule."""
    return Principal(
        user_id=row.owner_id,
        workspace_id=row.workspace_id,
        is_admin=False,
        full_name=row.job,
        email="",
        expires_at=row.expires_at,
        role=Role(row.role),
        ceiling=Role(row.role),
        ci_session_hash=row.token_hash,
        suites=tuple(row.suites),
    )


def _is_of_a_rule(row: CiSession) -> bool:
    return any(rule_digest(rule) == row.rule_digest for rule in trust_rules())
