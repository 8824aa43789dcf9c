"""Requests to one server: TLS, proxies, time-outs, bounded answers, repeats of what may repeat."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Final, NoReturn
from urllib.parse import urlencode

from partita_client import conf
from partita_client.addresses import ServerAddress, parse_address, proxy_for
from partita_client.connection_failures import AWAY, explain_failure
from partita_client.errors import (
    ApiProblem,
    BadConfiguration,
    NoConnection,
    NotPartita,
    advice_for,
)
from partita_client.release import VERSION

ANSWER_MAX_BYTES: Final = 64 * 2**20
_TRIES: Final = 3
_FIRST_PAUSE_S: Final = 0.3
_LONGEST_PAUSE_S: Final = 5.0
_IDLE_S: Final = 20.0  # a connection that was idle for longer is made anew
_REDIRECTS: Final = range(300, 400)
Query = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradedConnection:
    """A connection after a 101; `reader` may hold bytes that came right behind the answer."""

    channel: socket.socket
    headers: Mapping[str, str]  # names in lower case
    reader: IO[bytes]


@dataclass(slots=True)
class HttpTransport:
    """One connection to one server, made when it is needed; for one thread.

    `new_token` is asked after a 401 for the token of now; the request is then made once more.
    `has_answered`: the server, or a proxy before it, has answered anything.
    """

    url: str
    token: str = field(default="", repr=False)
    ca_file: str = ""
    timeout_s: float = 30.0
    new_token: Callable[[], str] | None = None
    address: ServerAddress = field(init=False)
    has_answered: bool = field(default=False, init=False)
    _connection: http.client.HTTPConnection | None = field(default=None, init=False)
    _used_at: float = field(default=0.0, init=False)
    _context: ssl.SSLContext | None = field(default=None, init=False)
    _is_tunneled: bool = field(default=False, init=False)  # through proxies, also without TLS

    def __post_init__(self) -> None:
        self.address = parse_address(self.url)
        if not (self.token.isascii() and self.token.isprintable()) or " " in self.token:
            raise BadConfiguration(
                "the token has a blank, a line break or a letter that no token has",
                advice="copy it again, without quotes",
            )

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        repeats: bool | None = None,
    ) -> HttpAnswer:
        """Return the answer of a request that succeeded; raise ClientError.

        A `body` of bytes is sent as it is, with the Content-Type of the headers, any other as JSON.
        A GET is repeated while the server is away, others where `repeats` says that they may be.
        """
        may_repeat = method == "GET" if repeats is None else repeats
        for tries_left in reversed(range(_TRIES if may_repeat else 1)):
            try:
                answer = self._send_once(method, path, query, body, headers or {})
            except NoConnection as error:
                self.close()
                if error.is_permanent or not tries_left:
                    raise
            else:
                if self.take_new_token(answer.status):
                    answer = self._send_once(method, path, query, body, headers or {})
                if answer.status not in AWAY or not tries_left:
                    return self.require_success(answer)
            time.sleep(pause_s(_TRIES - 1 - tries_left))
        raise AssertionError("the last try returns or raises")

    def take_new_token(self, status: int) -> bool:
        """Take the token of now where the server refuses that of before; return whether it did."""
        if status != http.HTTPStatus.UNAUTHORIZED or self.new_token is None:
            return False
        token, before = self.new_token(), self.token
        self.token = token or before
        return self.token != before

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Return the answer, whatever its status is; raise NoConnection, NotPartita."""
        return self._send_once(method, path, None, body, headers or {})

    def _send_once(
        self, method: str, path: str, query: Query | None, body: object, headers: Mapping[str, str]
    ) -> HttpAnswer:
        with self._errors_in_words():
            response = self._begin(method, path, query, body, headers, self.timeout_s)
            content = _read_whole(response)
            self._used_at = time.monotonic()
        if len(content) > ANSWER_MAX_BYTES:
            self.close()
            raise NotPartita(
                f"the answer of {self.address.url} to {path} is larger than "
                f"{ANSWER_MAX_BYTES >> 20} MiB",
                advice="ask for less: --limit, or the download of one file",
                is_permanent=True,
            )
        return HttpAnswer(status=response.status, headers=_headers_of(response), body=content)

    @contextmanager
    def stream(
        self, path: str, *, query: Query | None = None, headers: Mapping[str, str], idle_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield an answer whose body the caller reads, over a connection of its own.

        Raise NoConnection also for what happens while it is read, silence of `idle_s` too.
        """
        other = HttpTransport(self.url, self.token, self.ca_file, self.timeout_s)
        other._context = self._context
        try:
            with other._errors_in_words():
                response = other._begin("GET", path, query, None, headers, idle_s)
                self.has_answered = True
                if response.status not in (http.HTTPStatus.OK, http.HTTPStatus.PARTIAL_CONTENT):
                    content = _read_whole(response)
                    answer = HttpAnswer(
                        status=response.status, headers=_headers_of(response), body=content
                    )
                    if self.take_new_token(answer.status):
                        raise NoConnection(f"{self.address.url} has replaced its token")
                    self.require_success(answer)
                yield response
        finally:
            other.close()

    @contextmanager
    def upgrade(
        self, path: str, *, query: Query, headers: Mapping[str, str], timeout_s: float
    ) -> Iterator[UpgradedConnection]:
        """Yield a connection of its own on which the server speaks another protocol from now on.

        Raise ApiProblem, NoConnection, NotPartita; it is closed at the end.
        """
        other = HttpTransport(self.url, self.token, self.ca_file, self.timeout_s)
        other._context, other._is_tunneled = self._context, True
        try:
            with other._errors_in_words():
                response = other._begin("GET", path, query, None, headers, timeout_s)
                if response.status != http.HTTPStatus.SWITCHING_PROTOCOLS:
                    self._refuse_upgrade(response)
                connection = other._connection
                if connection is None or connection.sock is None:
                    raise http.client.RemoteDisconnected("it was cut")
                upgraded = UpgradedConnection(
                    channel=connection.sock, headers=_headers_of(response), reader=response.fp
                )
            yield upgraded
        finally:
            other.close()

    def _refuse_upgrade(self, response: http.client.HTTPResponse) -> NoReturn:
        content = _read_whole(response)
        answer = HttpAnswer(status=response.status, headers=_headers_of(response), body=content)
        if self.take_new_token(answer.status):
            raise NoConnection(f"{self.address.url} has replaced its token")
        problem = problem_of(answer, self.address.url)
        if isinstance(problem, ApiProblem):
            raise problem
        if answer.status in AWAY:
            raise NoConnection(f"{self.address.url} is away: a proxy answered {answer.status}")
        raise NotPartita(
            f"{self.address.url} answered {answer.status} instead of opening a WebSocket",
            advice="a proxy before it has to pass WebSockets (the headers Upgrade and Connection)",
        )

    def _begin(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: object,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> http.client.HTTPResponse:
        connection, prefix, proxy_headers = self._connect(timeout_s)
        sent = {"Accept": "application/json", "User-Agent": f"partita-client/{VERSION}"}
        sent |= {"Host": self.address.host_and_port, **proxy_headers}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        content = None
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        place = f"{self.address.path}{path}"
        if query:
            place += f"?{urlencode(query, doseq=True)}"
        sent |= headers
        _require_header_values(sent)
        connection.request(method, prefix + place, body=content, headers=sent)
        response = connection.getresponse()
        self.has_answered = True
        return response

    def _connect(self, timeout_s: float) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
        """Return the connection, what stands before the path, and headers for a proxy."""
        proxy = proxy_for(self.address, conf.environment())
        is_plain = self.address.scheme == "http"
        is_forwarded = is_plain and not self._is_tunneled
        prefix = f"http://{self.address.host_and_port}" if proxy and is_forwarded else ""
        proxy_headers = proxy.headers if proxy and is_forwarded else {}
        if self._connection is not None and time.monotonic() - self._used_at < _IDLE_S:
            return self._connection, prefix, proxy_headers
        self.close()
        host, port = (proxy.host, proxy.port) if proxy else (self.address.host, self.address.port)
        if is_plain:
            connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        else:
            connection = http.client.HTTPSConnection(
                host, port, timeout=timeout_s, context=self._tls_context()
            )
        if proxy and not is_forwarded:
            connection.set_tunnel(self.address.host, self.address.port, proxy.headers)
        self._connection = connection
        return connection, prefix, proxy_headers

    def _tls_context(self) -> ssl.SSLContext:
        if self._context is None:
            try:
                self._context = ssl.create_default_context(cafile=self.ca_file or None)
            except (OSError, ssl.SSLError) as error:
                raise BadConfiguration(
                    f"the file of the certificate authority {self.ca_file} cannot be used: "
                    f"{error.strerror or error}",
                    advice="name a PEM file: --ca-file FILE, or PARTITA_CA_FILE",
                ) from None
        return self._context

    @contextmanager
    def _errors_in_words(self) -> Iterator[None]:
        try:
            yield
        except (ssl.SSLError, socket.gaierror, http.client.HTTPException, OSError) as error:
            self.close()
            raise explain_failure(error, self.address) from None

    def require_success(self, answer: HttpAnswer) -> HttpAnswer:
        """Return an answer that is a success; raise ApiProblem, NotPartita."""
        if http.HTTPStatus.OK <= answer.status < _REDIRECTS.start:
            return answer
        if answer.status in _REDIRECTS and (to := answer.headers.get("location")):
            raise NotPartita(
                f"{self.address.url} leads elsewhere: {to[:200]}",
                advice=f"use that address: partita login {to.split('/api/')[0][:200]}",
                status=answer.status,
            )
        raise problem_of(answer, self.address.url)

    def limit_time(self, timeout_s: float) -> None:
        """Wait for so long at most for each answer from now on."""
        self.close()
        self.timeout_s = min(self.timeout_s, timeout_s)

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None


def pause_s(failures: int) -> float:
    """Return how long to wait after so many failures in a row; no two clients at once."""
    longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(failures, 10))
    return longest * random.uniform(0.6, 1)  # noqa: S311 - no secret


def _require_header_values(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise BadConfiguration(
                f"the value of {name} has a line break or a letter that no header has",
                advice="use letters without accents, digits, '.', '_' and '-'",
            )


def _read_whole(response: http.client.HTTPResponse) -> bytes:
    """Return the body, or what is more than is allowed of it; raise IncompleteRead for less."""
    content = response.read(ANSWER_MAX_BYTES + 1)
    if response.length and len(content) <= ANSWER_MAX_BYTES:  # http.client says nothing of it
        raise http.client.IncompleteRead(content, response.length)
    return content


def _headers_of(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def problem_of(answer: HttpAnswer, url: str) -> ApiProblem | NotPartita:
    """Return the problem document of an answer as an error."""
    try:
        document = json.loads(answer.body)
        code, detail = str(document["code"]), str(document["detail"])
    except (ValueError, LookupError, TypeError):
        return NotPartita(
            f"{url} answered {answer.status} without a problem document: "
            "it is not a Partita server, or a proxy before it answered",
            advice="check the address: partita login URL, then partita doctor",
            status=answer.status,
        )
    return ApiProblem(
        status=answer.status,
        code=code,
        detail=detail,
        advice=advice_for(code, url),
        document=document,
    )
