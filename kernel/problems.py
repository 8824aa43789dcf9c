"""The catalogue of problem codes (RFC 9457): code → HTTP status; the title is the code in words."""

from __future__ import annotations

from typing import Any, Final

from kernel.errors import PlatformError

_BY_STATUS: Final[dict[int, str]] = {
    400: "malformed_json validation_failed invalid_parameter unknown_parameter invalid_cursor "
    "weak_password reset_token_invalid invitation_invalid topology_invalid profile_invalid "
    "profile_not_in_suite backend_unknown package_invalid mock_constraint_failed "
    "mock_request_invalid oidc_state_invalid oidc_denied host_not_allowed "
    "authorization_pending slow_down access_denied expired_token",
    401: "unauthenticated token_invalid token_expired token_revoked invalid_credentials "
    "second_factor_required second_factor_invalid second_factor_unreadable "
    "refresh_invalid refresh_reused ticket_invalid code_invalid agent_credential_invalid "
    "ci_token_invalid ci_token_expired ci_token_used "
    "mock_secret_required",
    403: "admin_required csrf_failed origin_not_allowed sign_up_disabled password_auth_disabled "
    "account_disabled agent_mismatch role_required session_required "
    "invitation_not_yours oidc_email_missing oidc_email_unverified shells_off "
    "ci_refused ci_session_limited suite_refused",
    404: "not_found suite_not_found profile_not_found package_not_found execution_not_found "
    "artifact_not_found repeat_not_found sandbox_not_found agent_not_found job_not_found "
    "registry_not_found subsystem_not_found surface_not_found operation_not_found mock_no_match "
    "space_not_active oidc_disabled task_not_found shell_not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "request_timeout",
    409: "email_taken suite_exists profile_duplicate profile_in_use profile_not_launchable "
    "execution_active execution_finished nothing_to_rerun snapshot_differs sync_in_progress "
    "reap_in_progress stale_attempt log_gap job_running last_workspace_admin agent_online "
    "tag_taken not_kept shell_unavailable repeat_active repeat_finished repeat_unavailable",
    410: "artifact_expired artifact_lost",
    412: "precondition_failed",
    413: "payload_too_large",
    415: "unsupported_media_type",
    416: "range_not_satisfiable",
    422: "idempotency_key_reused mock_contract_violation",
    429: "rate_limited mock_rate_limited account_locked too_many_streams too_many_shells",
    500: "internal_error mock_metadata_invalid mock_script_failed",
    501: "not_available",
    502: "registry_unreachable oidc_provider_error mock_proxy_refused mock_proxy_failed",
    503: "datastore_unavailable backend_unavailable queue_full container_runtime_unavailable "
    "agent_secret_unset mail_unavailable shutting_down artifact_unavailable "
    "mock_fault_unavailable ci_issuer_unavailable",
}
PROBLEMS: Final[dict[str, int]] = {
    code: status for status, codes in _BY_STATUS.items() for code in codes.split()
}
RETRY_AFTER_S: Final[dict[int, int]] = {429: 60, 503: 5}


def title(code: str) -> str:
    return code.replace("_", " ").capitalize()


def problem_document(error: PlatformError, *, instance: str, request_id: str) -> dict[str, Any]:
    """The body of an `application/problem+json` answer; raises KeyError for an unlisted code."""
    code = error.problem_code
    document: dict[str, Any] = {
        "type": f"urn:partita:problem:{code}",
        "title": title(code),
        "status": PROBLEMS[code],
        "detail": error.detail,
        "instance": instance,
        "code": code,
        "requestId": request_id,
        "error": error.detail,
    }
    if error.errors:
        document["errors"] = [entry.as_dict() for entry in error.errors]
    return document | error.members


def problem_headers(error: PlatformError) -> dict[str, str]:
    """Headers that go with the status: `WWW-Authenticate` on 401, `Retry-After` on 429 and 503."""
    status = PROBLEMS[error.problem_code]
    if status == 401:  # noqa: PLR2004
        return {"WWW-Authenticate": "Bearer"}
    retry_after = error.retry_after_s or RETRY_AFTER_S.get(status)
    return {} if retry_after is None else {"Retry-After": str(retry_after)}
