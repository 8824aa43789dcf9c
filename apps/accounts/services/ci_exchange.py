"""CI jobs exchange their own OIDC token for a session, by the rules of `ciTrust`.

The caller hears a code and a sentence that says nothing of the rules; the log and the audit record
of the request name the rule and the claim that came nearest. (reference: control-plane 3)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn
from uuid import UUID

import jwt
from django.db.models import Q

from apps.accounts import conf
from apps.accounts.domain.ci_sessions import CI_TOKEN_PREFIX, job_identity, once_key, rule_digest
from apps.accounts.domain.errors import Forbidden, Unauthenticated
from apps.accounts.domain.tokens import hash_token, new_opaque_token
from apps.accounts.models import CiSession, Workspace
from apps.accounts.services.ci_keys import ALGORITHMS, issuer_key
from apps.accounts.services.ci_sessions import session_note, trust_rules
from apps.observability.api import request_context
from apps.streams.api import unit_of_work
from kernel.ci_trust import JobClaims, TrustMiss, TrustRule, find_rule, read_job
from kernel.clock import now

_MAX_LENGTH: Final = 8192
_LONGEST_TOKEN_LIFE: Final = timedelta(days=7)
_REQUIRED: Final = ["iss", "aud", "sub", "iat", "exp"]
_INVALID: Final = "the CI token is not valid here"
_SEE: Final = "the server's log and audit record of this request say why"
_log = logging.getLogger("partita.accounts")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCiSession:
    """`token` is shown once; the store holds its hash."""

    row: CiSession
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _VerifiedToken:
    """`once_key` is what the token has only once, `expires_at` its end."""

    job: JobClaims
    once_key: str
    expires_at: datetime


def begin_ci_session(token: str) -> NewCiSession:
    """Exchange a job's token for a session, once.

    Raise Unauthenticated (ci_token_invalid, ci_token_expired, ci_token_used), Forbidden
    (ci_refused), CiIssuerUnavailable.
    """
    rules = trust_rules()
    verified = _verify(token, rules)
    job = verified.job
    of_issuer = [rule for rule in rules if rule.issuer == job.issuer]
    found = find_rule(of_issuer, job)
    if isinstance(found, TrustMiss):
        _refuse_job(job, str(found))
    workspace = _find_workspace(found.workspace)
    if workspace is None:
        _refuse_job(job, f"rule {found.name}: there is no workspace {found.workspace!r}")
    session = _store_session(found, verified, workspace)
    context = request_context()
    context.workspace_id, context.note = str(workspace.pk), session_note(session.row)
    _log.info("A CI session begins: %s", context.note)
    return session


def _verify(token: str, rules: Sequence[TrustRule]) -> _VerifiedToken:
    """Check form, algorithm, signature and times; the issuer is asked only if a rule names it."""
    if len(token) > _MAX_LENGTH:
        _refuse_token(f"it has {len(token)} letters, more than {_MAX_LENGTH}")
    try:
        header, claims = _read_unverified(token)
        of_issuer = [each for each in rules if each.issuer == claims.get("iss")]
        if not of_issuer:
            _refuse_token(f"no rule trusts its issuer {claims.get('iss')!r:.200}")
        rule = max(of_issuer, key=lambda each: each.allow_local_network)
        verified = _check_signature(token, header, rule)
    except jwt.ExpiredSignatureError:
        _log.warning("A CI token was refused: it has expired")
        raise Unauthenticated("the CI token has expired", code="ci_token_expired") from None
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        _refuse_token(f"{type(error).__name__}: {error}")
    return verified


def _read_unverified(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.get_unverified_header(token), claims


def _check_signature(token: str, header: Mapping[str, Any], rule: TrustRule) -> _VerifiedToken:
    """Return the verified token; its audience is checked with the rest of the rule."""
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise jwt.InvalidAlgorithmError(f"the algorithm {algorithm!r:.40} is not allowed")
    if "crit" in header or not isinstance(key_id, str):
        raise jwt.InvalidKeyError("the header has no kid, or has crit")
    key = issuer_key(rule, key_id, algorithm)
    if key is None:
        raise jwt.InvalidKeyError(f"the issuer has no key {key_id!r:.80} for {algorithm}")
    claims = jwt.decode(
        token,
        key,
        algorithms=[algorithm],
        issuer=rule.issuer,
        leeway=conf.LEEWAY,
        options={"require": _REQUIRED, "verify_aud": False},
    )
    expires_s = int(claims["exp"])  # a calendar may not reach as far
    if expires_s > (now() + _LONGEST_TOKEN_LIFE).timestamp():
        raise ValueError(f"it lives longer than {_LONGEST_TOKEN_LIFE.days} days")
    return _VerifiedToken(
        job=read_job(claims),
        once_key=once_key(token, rule.issuer, claims.get("jti")),
        expires_at=datetime.fromtimestamp(expires_s, UTC),
    )


def _find_workspace(named: str) -> Workspace | None:
    """Return the workspace of this id, or of this slug where it can be no id.

    People choose slugs: one that reads like the id of another workspace must not take its place.
    """
    try:
        wanted = Q(pk=UUID(named))
    except ValueError:
        wanted = Q(slug=named)
    return Workspace.objects.filter(wanted).first()


@unit_of_work
def _store_session(rule: TrustRule, verified: _VerifiedToken, workspace: Workspace) -> NewCiSession:
    """Store the session; of two uses of one token at once, the unique key repeats the second."""
    token = CI_TOKEN_PREFIX + new_opaque_token()
    expires_at = now() + timedelta(minutes=rule.expires_minutes)
    row = CiSession(
        workspace=workspace,
        owner_id=job_identity(rule, verified.job, workspace.pk),
        token_hash=hash_token(token),
        job_token_hash=verified.once_key,
        rule_name=rule.name,
        rule_digest=rule_digest(rule),
        job=verified.job.label,
        role=rule.role,
        suites=list(rule.suites),
        expires_at=expires_at,
        kept_until=max(expires_at, verified.expires_at + 2 * conf.LEEWAY),
    )
    if CiSession.objects.filter(job_token_hash=verified.once_key).exists():
        _note_refusal(f"the token of {verified.job.label} was used before")
        raise Unauthenticated(
            "the CI token was used before; a job asks its CI system for a new one",
            code="ci_token_used",
        )
    row.save(force_insert=True)
    return NewCiSession(row=row, token=token)


def _refuse_token(why: str) -> NoReturn:
    _note_refusal(f"the token is not valid: {why}")
    raise Unauthenticated(f"{_INVALID}; {_SEE}", code="ci_token_invalid")


def _refuse_job(job: JobClaims, why: str) -> NoReturn:
    _note_refusal(f"{job.label}; {why}")
    raise Forbidden(f"no trust rule lets this CI job in; {_SEE}", code="ci_refused")


def _note_refusal(why: str) -> None:
    printable = "".join(letter for letter in why if letter.isprintable())[:1000]
    request_context().note = f"CI job refused: {printable}"
    _log.warning("A CI job was refused: %s", printable)
