"""What a plane is made of, and who may call it."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from mocks.errors import SecretRequired, SuiteNotFound
from mocks.journal.entries import NotedCall
from mocks.model.calls import MockRequest
from mocks.model.spaces import SpaceName
from mocks.plane.http_requests import SECRET_HEADER
from mocks.plane.http_responses import SECURITY, Headers
from mocks.spaces import Spaces

if TYPE_CHECKING:
    from mocks.engine.engine import Engine

Record = Callable[[float], object]  # told a duration in milliseconds


def no_meter(_adapter: str, _dispatcher: str, _outcome: str) -> Record:
    """Count nothing."""
    return lambda _duration_ms: None


class Notes(Protocol):
    """A journal that takes calls as the plane notes them."""

    def next_id(self) -> str: ...

    def add(self, space: str, entry: NotedCall) -> None: ...


@dataclass(frozen=True, kw_only=True)
class PlaneSetup:
    """What a plane is made of. `meter` returns who is told the durations of one kind of call.

    `site_hosts`: the hosts of the pages, without ports. `own_cookies`: Partita's, which no mock
    sees. `nearest` says what an unmatched call of an operation or surface was nearest to.
    `page_headers` protect the pages that may be on the same host; every answer has them, and no
    example sets them.
    """

    spaces: Spaces
    engine: Engine
    journal: Notes
    meter: Callable[[str, str, str], Record] = no_meter
    is_draining: Callable[[], bool] = lambda: False
    secret: str = ""
    site_hosts: frozenset[str] = frozenset()
    own_cookies: frozenset[str] = frozenset()
    page_headers: tuple[tuple[bytes, bytes], ...] = tuple(SECURITY)
    strict_transport_security: str = ""
    nearest: Callable[[Any, MockRequest], Mapping[str, Any] | None] = lambda _target, _request: None

    def common_headers(self) -> Headers:
        """Return what every answer has."""
        headers = [*self.page_headers]
        if self.strict_transport_security:
            value = self.strict_transport_security.encode()
            headers.append((b"strict-transport-security", value))
        return headers

    def reserved_names(self) -> frozenset[bytes]:
        """Return the names of headers that no example sets."""
        return frozenset(name for name, _ in self.page_headers)


class AccessRules:
    """MOCK_SHARED_SECRET, and the host of the pages."""

    def __init__(self, setup: PlaneSetup) -> None:
        self._secret = setup.secret.encode()
        self._site_hosts = setup.site_hosts

    def authorize_space(self, given: Mapping[bytes, bytes], text: str) -> SpaceName:
        """Authorize a call of the space that a path names, and return it.

        Raise SuiteNotFound or SecretRequired.
        """
        decoded = unquote(text) if "%" in text else text
        name = SpaceName.parse(decoded)
        if name is None:
            raise SuiteNotFound(decoded)
        if not self.may_call(name, given):
            raise SecretRequired
        return name

    def may_call(self, name: SpaceName, given: Mapping[bytes, bytes]) -> bool:
        """Return whether the secret is there, or not needed: nobody guesses a run's space."""
        if not self._secret or not name.is_shared:
            return True
        return hmac.compare_digest(given.get(SECRET_HEADER, b""), self._secret)

    def require_secret(self, given: Mapping[bytes, bytes]) -> None:
        if self._secret and not hmac.compare_digest(given.get(SECRET_HEADER, b""), self._secret):
            raise SecretRequired

    def is_on_site(self, given: Mapping[bytes, bytes]) -> bool:
        """Return whether the pages are on the host that this request names, or a proxy's did."""
        hosts = [given.get(b"host", b""), *given.get(b"x-forwarded-host", b"").split(b",")]
        return any(host_name(host) in self._site_hosts for host in hosts)


def host_name(host: bytes) -> str:
    """Return the name of a Host header, without its port."""
    text = host.decode("latin-1").strip().casefold()
    if text.startswith("["):
        return text.partition("]")[0].lstrip("[")
    return text.partition(":")[0].rstrip(".")
