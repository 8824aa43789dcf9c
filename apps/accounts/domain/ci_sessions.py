"""Sessions of CI jobs: their tokens, which job they belong to, and the routes that they reach."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from dataclasses import asdict
from typing import Final
from uuid import UUID

from apps.accounts.domain.api_tokens import is_api_token
from kernel.ci_trust import JobClaims, TrustRule

CI_TOKEN_PREFIX: Final = "pci_"  # noqa: S105 - not a secret
_NAMESPACE: Final = UUID("6c1d3f0e-52a7-4b0e-9d0f-6f1b7f0a7c93")
_RUN: Final = r"/api/v1/executions/run-[0-9a-f]{12}"
_READ: Final = re.compile(
    r"/api/v1/executions"
    rf"|{_RUN}(?:/(?:events|junit|logs|logs/at|logs/search|probes|since-green|timeline"
    r"|artifacts/[^/]+(?:/image)?))?"
)
_WRITTEN: Final = re.compile(rf"/api/v1/auth/sign-out|/api/v1/executions|{_RUN}/(?:cancel|rerun)")


def is_ci_token(token: str) -> bool:
    """Return whether a bearer token looks like that of a CI session."""
    return token.startswith(CI_TOKEN_PREFIX)


def is_program_token(token: str) -> bool:
    """Return whether a text looks like a credential of programs: an API token, a CI session."""
    return is_api_token(token) or is_ci_token(token)


def is_in_reach(method: str, path: str) -> bool:
    """Return whether a CI session may use a route: runs, their logs and files, and its own end.

    What is not listed is out of reach, also what is added later.
    """
    if method in ("GET", "HEAD"):
        return _READ.fullmatch(path) is not None
    return method == "POST" and _WRITTEN.fullmatch(path) is not None


def rule_digest(rule: TrustRule) -> str:
    """Return what changes with any part of the rule: a session of a changed rule ends."""
    return hashlib.sha256(json.dumps(asdict(rule), sort_keys=True).encode()).hexdigest()


def job_identity(rule: TrustRule, job: JobClaims, workspace_id: UUID) -> UUID:
    """Return who owns the runs of all jobs that one rule lets in from one repository.

    So a job that is run again finds the run of its idempotency key.
    """
    whose = job.repository or job.subject
    return uuid.uuid5(_NAMESPACE, json.dumps([rule.name, job.issuer, whose, str(workspace_id)]))


def once_key(token: str, issuer: str, token_id: object) -> str:
    """Return the hash that a job's token has only once.

    Of its `jti`, else of all that is signed: the signature itself can have several forms.
    """
    signed = token.rpartition(".")[0]
    seen = ["jti", issuer, token_id] if isinstance(token_id, str) and token_id else ["sig", signed]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()
