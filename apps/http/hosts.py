"""The names that this server answers to: a page of a stranger must not reach it under its own name.

A browser sends a page of evil.example, whose address now is 127.0.0.1 (DNS rebinding), with the
header `Host: evil.example`. Django looks at the header only where a view asks for it; this looks
at every request and WebSocket. Mocks are served in front of it: they stand in for other hosts.
(reference: control-plane 2)
"""

from __future__ import annotations

import ipaddress
import json
import uuid
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from django.http.request import split_domain_port, validate_host

from apps.http import conf
from kernel.errors import PlatformError
from kernel.problems import problem_document

Application = Callable[[Any, Any, Any], Awaitable[None]]

_PROBED: Final = ("/healthz", "/readyz", "/metrics")  # by the address of a pod
_MAX_SHOWN: Final = 100


class HostNotAllowed(PlatformError):
    code = "host_not_allowed"


def serve_known_hosts(application: Application) -> Application:
    """Return an application that refuses requests to other hosts than SERVED_HOSTS."""
    if "*" in conf.served_hosts():
        return application

    async def with_check(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or scope["path"].startswith(_PROBED):
            await application(scope, receive, send)
            return
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        stranger = next((host for host in hosts if not is_served(host)), None)
        if stranger is None:
            await application(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4400})
        else:
            await _refuse(stranger, scope, send)

    return with_check


def is_served(host: str) -> bool:
    """Return whether a Host header names this server."""
    return _is_served(host, tuple(conf.served_hosts()), conf.serves_any_address())


@lru_cache(maxsize=1024)
def _is_served(host: str, served: Iterable[str], any_address: bool) -> bool:  # noqa: FBT001
    domain = split_domain_port(host)[0]
    if not domain:
        return False
    return validate_host(domain, served) or (any_address and _is_address(domain))


def _is_address(domain: str) -> bool:
    """Return whether this is an IP address, which nobody can point elsewhere."""
    try:
        ipaddress.ip_address(domain.strip("[]"))
    except ValueError:
        return False
    return True


async def _refuse(host: str, scope: Any, send: Any) -> None:
    error = HostNotAllowed(
        f"this server does not answer to the host {host[:_MAX_SHOWN]!r}: open "
        f"{conf.public_url()}, or name the host in ALLOWED_HOSTS or PUBLIC_API_URL"
    )
    request_id = uuid.uuid4().hex
    document = problem_document(error, instance=scope["path"], request_id=request_id)
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"cache-control", b"no-store"),
        (b"x-request-id", request_id.encode()),
    ]
    await send({"type": "http.response.start", "status": document["status"], "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(document).encode()})
