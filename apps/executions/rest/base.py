"""The base of the REST views of executions."""

from __future__ import annotations

from typing import Final

from apps.accounts.api import Principal, rate_limited
from apps.executions import api
from apps.executions.rest.parameters import idempotency_key
from apps.http.rest import StrictAPIView

LAUNCHES: Final = "launches"  # POST executions and rerun together
LAUNCHES_A_MINUTE: Final = 30


class ExecutionsView(StrictAPIView):
    """A view for signed-in callers; `run_id` is the id in the path of an execution."""

    @property
    def principal(self) -> Principal:
        principal = self.request.user
        if not isinstance(principal, Principal):
            raise TypeError("the permission lets only principals through")
        return principal

    @property
    def run_id(self) -> str:
        return str(self.kwargs["executionId"])

    def idempotency(self) -> api.Idempotency | None:
        """Return the idempotency key of the request; call this before the body is parsed.

        Raise InvalidParameter.
        """
        key = idempotency_key(self.request)
        if not key:
            return None
        return api.Idempotency(
            principal=self.principal.key,
            method=self.request.method or "",
            path=self.request.path,
            key=key,
            body=self.request.body,
        )

    def limit_launches(self) -> None:
        """Raise TooManyAttempts above the limit."""
        rate_limited(LAUNCHES, self.principal.key, LAUNCHES_A_MINUTE)
