"""Who calls the agent routes: workers by shared secret or token, users by session; their base.

(reference: control-plane 15.1)
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.accounts.api import Forbidden, Principal, Unauthenticated, is_program_token, limit_rate
from apps.accounts.rest import SessionAuthentication
from apps.agents.api import Agent, authenticate
from apps.executions.api import SupervisorSession
from apps.http.api import client_ip
from apps.http.rest import StrictAPIView
from apps.observability.api import audit_agent
from apps.workers import conf
from apps.workers.rest.inputs import AgentSerializer
from apps.workers.services.remote_workers import supervisor_of
from kernel.errors import PlatformError

# These answers contain tokens and secrets: no proxy may store them.
UNCACHED: Final = {"Cache-Control": "no-store"}
REGISTRATIONS: Final = "agents.register"
REGISTRATIONS_A_MINUTE: Final = 30
# The OpenAPI names of the credentials that AgentOrSessionAuthentication accepts.
AGENT_OR_SESSION: Final[Any] = [
    {"agentToken": []},
    {"bearer": []},
    {"session": []},
]


class AgentSecretUnset(PlatformError):
    code = "agent_secret_unset"

    def __init__(self) -> None:
        super().__init__("AGENT_SHARED_SECRET is not set on this server, so it accepts no workers")


class AgentCredentialInvalid(PlatformError):
    code = "agent_credential_invalid"

    def __init__(self) -> None:
        super().__init__("this credential is not valid for a worker, or no longer")


class AgentMismatch(PlatformError):
    code = "agent_mismatch"

    def __init__(self) -> None:
        super().__init__("the credential belongs to a different agent than the request names")


class HoldsSharedSecret:
    """The `user` of a request that carried the shared secret."""


class SharedSecretAuthentication(BaseAuthentication):
    """Authenticates registrations; limits the attempts of each address."""

    def authenticate(self, request: Request) -> tuple[HoldsSharedSecret, None]:
        secret = _shared_secret()
        limit_rate(REGISTRATIONS, client_ip(request._request), REGISTRATIONS_A_MINUTE)  # noqa: SLF001 - DRF's way to the request below
        if not hmac.compare_digest(_bearer(request).encode("utf-8", "replace"), secret.encode()):
            raise AgentCredentialInvalid
        return HoldsSharedSecret(), None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class AgentAuthentication(BaseAuthentication):
    """Authenticates workers; looks up the token's hash, so that timing reveals nothing."""

    def authenticate(self, request: Request) -> tuple[Agent, None]:
        _shared_secret()
        agent = authenticate(_bearer(request))
        if agent is None:
            raise AgentCredentialInvalid
        audit_agent(agent.agent_id)
        return agent, None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class AgentOrSessionAuthentication(SessionAuthentication):
    """Accepts an agent's token, or a session, access token (with dots), API token or CI session."""

    def authenticate(self, request: Request) -> Any:
        token = _bearer(request)
        if token and "." not in token and not is_program_token(token):
            return AgentAuthentication().authenticate(request)
        found = super().authenticate(request)
        if found is None:
            _shared_secret()
        return found


class MayRegister(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.user, HoldsSharedSecret)


class IsAgent(BasePermission):
    """Allows the worker that the path names, if it names one. Raises AgentMismatch."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.user, Agent):
            raise AgentCredentialInvalid
        if view.kwargs.get("agentId", request.user.agent_id) != request.user.agent_id:
            raise AgentMismatch
        return True


class IsAgentOrSignedIn(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.user, Agent | Principal):
            raise Unauthenticated("sign in, or send the token of an agent")
        return True


class IsThatAgentOrAdmin(IsAgentOrSignedIn):
    """Raises Unauthenticated, AgentMismatch, Forbidden (admin_required)."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        super().has_permission(request, view)
        if isinstance(request.user, Agent):
            return IsAgent().has_permission(request, view)
        if not request.user.is_admin:  # type: ignore[union-attr]
            raise Forbidden("only an administrator may remove an agent")
        return True


def _shared_secret() -> str:
    """Return the secret. Raises AgentSecretUnset: all agent routes are closed (invariant 8)."""
    secret = conf.agent_secret()
    if not secret:
        raise AgentSecretUnset
    return secret


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class SharedSecretScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = SharedSecretAuthentication
    name = "agentSecret"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, object]:
        return {"type": "http", "scheme": "bearer", "description": "AGENT_SHARED_SECRET"}


class AgentScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = AgentAuthentication
    name = "agentToken"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, object]:
        return {"type": "http", "scheme": "bearer", "description": "`agentToken` of registering"}


class AgentView(StrictAPIView):
    """A route for a worker with its own token."""

    authentication_classes: Any = [AgentAuthentication]
    permission_classes: Any = [IsAgent]

    @property
    def agent(self) -> Agent:
        agent = self.request.user
        if not isinstance(agent, Agent):
            raise TypeError("the permission lets only agents through")
        return agent

    @property
    def supervisor(self) -> SupervisorSession:
        return supervisor_of(self.agent)

    def own_body(self, serializer: type[AgentSerializer]) -> Mapping[str, Any]:
        """Return the validated body. Raises InvalidInput, AgentMismatch for another agent's id."""
        body = self.body(serializer)
        if body["agentId"] != self.agent.agent_id:
            raise AgentMismatch
        return body
