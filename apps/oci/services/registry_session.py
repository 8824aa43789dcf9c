"""HTTP with one registry: checked addresses, bounded bodies, sign-in, redirects and retries.

    async with RegistrySession(registry) as session:
        answer = await session.send("GET", "/v2/_catalog", limit=2**20)

It lasts for one synchronization, pull or push. Redirects are followed at most five times, each to a
checked address, and lose the credentials when they leave the registry. What fails raises
RegistryFailure, whose texts hold nothing that a registry said.
"""

from __future__ import annotations

import asyncio
import base64
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import httpx

from apps.oci import conf
from apps.oci.domain.challenges import Challenge, read_challenge
from apps.oci.domain.repositories import IN_FLIGHT, RegistryFailure
from apps.oci.services.failures import failure
from apps.platform_settings.api import ImageRegistry
from kernel import clock
from kernel.addresses import LOCAL_TOO, PUBLIC_ONLY, Resolver, resolve
from kernel.kept_connections import KeptConnections
from readers import Unreadable
from readers.json import read_json

MAX_REDIRECTS: Final = 5
RETRIES: Final = 2
_RETRIED: Final = frozenset([429, 502, 503, 504])
_REDIRECTS: Final = frozenset([301, 302, 303, 307, 308])
_REPEATABLE: Final = frozenset(["GET", "HEAD", "PUT"])  # PUT: of content under its digest
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 10.0
_MAX_TOKEN_BYTES: Final = 64 * 1024
_MAX_URL: Final = 8192
_PORTS: Final = range(1, 2**16)
_HUB: Final = ("docker.io", "registry-1.docker.io")  # in references, and where its API is


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str

    def header(self, name: str) -> str:
        return self.headers.get(name, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    method: str
    url: httpx.URL
    headers: Mapping[str, str]
    body: bytes
    limit: int
    scope: str


class RegistrySession:
    def __init__(
        self,
        registry: ImageRegistry,
        *,
        resolver: Resolver = resolve,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._pause = pause
        self.base = _base_url(registry.url)
        own_host = self.base.raw_host.decode("ascii")
        self._connections = KeptConnections(
            PUBLIC_ONLY,  # of whoever a registry redirects to, or names as its token server
            policies={own_host: LOCAL_TOO} if registry.allow_local_network else {},
            resolver=resolver,
            at_once=IN_FLIGHT,
            trust=_trust(conf.ca_file()),
        )
        self._sign_in = _SignIn(registry, self)

    async def __aenter__(self) -> RegistrySession:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._connections.aclose()

    async def send(
        self,
        method: str,
        target: str,
        *,
        limit: int,
        scope: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """Send a request and read an answer of at most `limit` bytes.

        `target` is a path of the registry or an absolute URL. `scope` is what a token must permit.
        The answer is of any status but 401 and those that say "later". Raise RegistryFailure.
        """
        is_path = target.startswith("/v2/")  # of our own making: no link that a registry gave
        url = (
            self.base.copy_with(raw_path=target.encode())
            if is_path
            else join_url(self.base, target)
        )
        sent = _Sent(
            method=method, url=url, headers=headers or {}, body=body, limit=limit, scope=scope
        )
        answer = await self._send_signed_in(sent)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            raise RegistryFailure(
                "unauthorized", "the registry refuses the credentials (401)", status=401
            )
        if answer.status in _RETRIED:
            code = (
                "rate_limited" if answer.status == HTTPStatus.TOO_MANY_REQUESTS else "unavailable"
            )
            raise RegistryFailure(
                code, f"the registry answers {answer.status}", status=answer.status
            )
        return answer

    async def _send_signed_in(self, sent: _Sent) -> Answer:
        if origin(sent.url) != origin(self.base):  # a place to upload to, elsewhere
            return await self.send_with_retries(sent, "")
        authorization = await self._sign_in.authorization(sent.scope)
        answer = await self.send_with_retries(sent, authorization)
        asks = answer.status == HTTPStatus.UNAUTHORIZED
        if not asks or origin(httpx.URL(answer.url)) != origin(self.base):
            return answer  # whom the registry redirects to may not ask for its credentials
        challenge = read_challenge(answer.header("www-authenticate"))
        authorization = await self._sign_in.answer_challenge(challenge, sent.scope, authorization)
        return await self.send_with_retries(sent, authorization) if authorization else answer

    async def send_with_retries(self, sent: _Sent, authorization: str) -> Answer:
        """Send, and send again after a pause where the answer says "later"."""
        for attempt in range(RETRIES):
            try:
                answer = await self._follow_redirects(sent, authorization)
            except httpx.RemoteProtocolError as error:  # a kept connection that was just closed
                if sent.method not in _REPEATABLE:
                    raise failure(error) from error
                continue
            if answer.status not in _RETRIED or sent.method not in _REPEATABLE:
                return answer
            await self._pause(_pause_s(answer.header("retry-after"), attempt))
        return await self._last(sent, authorization)

    async def _last(self, sent: _Sent, authorization: str) -> Answer:
        try:
            return await self._follow_redirects(sent, authorization)
        except httpx.RemoteProtocolError as error:
            raise failure(error) from error

    async def _follow_redirects(self, sent: _Sent, authorization: str) -> Answer:
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._once(sent, authorization)
            if answer.status not in _REDIRECTS:
                return answer
            if sent.method not in ("GET", "HEAD"):
                raise RegistryFailure("redirect_refused", "the registry redirects an upload")
            target = _redirect_target(sent.url, answer.header("location"))
            if origin(target) != origin(sent.url):
                authorization = ""
            sent = replace(sent, url=target)
        raise RegistryFailure(
            "too_many_redirects", f"the registry redirects more than {MAX_REDIRECTS} times"
        )

    async def _once(self, sent: _Sent, authorization: str) -> Answer:
        headers = {
            "Accept-Encoding": "identity",
            "User-Agent": "partita",
            **({"Authorization": authorization} if authorization else {}),
            **sent.headers,
        }
        if sent.body or sent.method not in ("GET", "HEAD"):
            headers["Content-Length"] = str(len(sent.body))
        try:
            reply = await self._connections.request(
                sent.method, sent.url, headers=headers, body=sent.body, limit=sent.limit
            )
        except httpx.RemoteProtocolError:
            raise
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise failure(error) from error
        if reply.headers.get("content-encoding", "identity").lower() != "identity":
            raise RegistryFailure("invalid_response", "the registry compresses its answer")
        if reply.is_cut and reply.is_success:  # what an error says beyond its limit is not read
            detail = f"the registry sends more than {sent.limit} bytes"
            raise RegistryFailure("response_too_large", detail)
        return Answer(
            status=reply.status, headers=reply.headers, body=reply.body, url=str(sent.url)
        )


class _SignIn:
    """What requests are authorized by: Basic, a secret that is a token, or tokens by scope."""

    def __init__(self, registry: ImageRegistry, session: RegistrySession) -> None:
        self._session = session
        self._username = registry.username
        self._secret = registry.secret
        self._authorization = ""
        if registry.secret and not registry.username:
            self._authorization = f"Bearer {registry.secret}"
        self._challenge: Challenge | None = None  # of the token server, once it is known
        self._tokens: dict[str, asyncio.Task[str]] = {}

    async def authorization(self, scope: str) -> str:
        """Return what to send first: "" until the registry has asked for something."""
        if self._challenge is None:
            return self._authorization
        return await self._token(scope)

    async def answer_challenge(self, challenge: Challenge | None, scope: str, tried: str) -> str:
        """Return what answers the challenge of a 401 after `tried`, "" where nothing helps."""
        if challenge is None:
            return ""
        if challenge.scheme == "basic" and self._username:
            self._authorization = self._basic()
            return "" if tried == self._authorization else self._authorization
        if challenge.scheme == "bearer":
            if self._challenge is not None:  # a token that has expired, or permits too little
                self._tokens.pop(scope, None)
            self._challenge = challenge
            return await self._token(scope or challenge.parameters.get("scope", ""))
        return ""

    async def _token(self, scope: str) -> str:
        if scope not in self._tokens:
            self._tokens[scope] = asyncio.create_task(self._fetch_token(scope))
        try:
            return f"Bearer {await asyncio.shield(self._tokens[scope])}"
        except RegistryFailure:
            self._tokens.pop(scope, None)
            raise

    async def _fetch_token(self, scope: str) -> str:
        assert self._challenge is not None
        sent = _Sent(
            method="GET",
            url=self._realm(scope),
            headers={"Accept": "application/json"},
            body=b"",
            limit=_MAX_TOKEN_BYTES,
            scope="",
        )
        try:
            answer = await self._session.send_with_retries(
                sent, self._basic() if self._username else ""
            )
        except RegistryFailure as error:
            if error.code == "response_too_large":
                raise RegistryFailure("invalid_response", "the token is too large") from None
            raise
        if answer.status != HTTPStatus.OK:
            raise RegistryFailure(
                "unauthorized",
                f"the token server refuses the credentials ({answer.status})",
                status=HTTPStatus.UNAUTHORIZED,
            )
        return _token_of(answer.body)

    def _realm(self, scope: str) -> httpx.URL:
        assert self._challenge is not None
        parameters = self._challenge.parameters
        realm = join_url(self._session.base, parameters.get("realm", ""))
        if self._session.base.scheme == "https" and realm.scheme != "https":
            raise RegistryFailure("realm_refused", "the token server is not reached by https")
        asked = {"service": parameters.get("service", ""), "scope": scope}
        return realm.copy_merge_params({key: text for key, text in asked.items() if text})

    def _basic(self) -> str:
        pair = f"{self._username}:{self._secret}".encode()
        return f"Basic {base64.b64encode(pair).decode('ascii')}"


def _token_of(body: bytes) -> str:
    try:
        document = read_json(body, max_bytes=_MAX_TOKEN_BYTES, max_depth=8)
    except Unreadable:
        document = None
    found = document if isinstance(document, dict) else {}
    token = found.get("token") or found.get("access_token")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
        raise RegistryFailure("invalid_response", "the token server answers without a token")
    return token


def _pause_s(retry_after: str, attempt: int) -> float:
    asked = 0.0
    if retry_after.isdecimal() and len(retry_after) <= 6:  # noqa: PLR2004
        asked = float(retry_after)
    elif retry_after:
        try:
            asked = (parsedate_to_datetime(retry_after) - clock.now()).total_seconds()
        except (ValueError, TypeError):
            asked = 0.0
    pause = _FIRST_PAUSE_S * (attempt + 1) * random.uniform(0.5, 1.5)  # noqa: S311 - jitter
    return min(_LONGEST_PAUSE_S, max(pause, asked))


def _base_url(text: str) -> httpx.URL:
    """Return where the API is: scheme, host and port; without a scheme, https."""
    try:
        url = httpx.URL(text if "://" in text else f"https://{text}")
    except httpx.InvalidURL:
        raise RegistryFailure("url_invalid", "the address of the registry is not a URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise RegistryFailure("url_invalid", "the address of the registry is not an http(s) URL")
    host = _HUB[1] if url.host == _HUB[0] else url.host
    return httpx.URL(scheme=url.scheme, host=host, port=url.port, path="/")


def join_url(base: httpx.URL, target: str) -> httpx.URL:
    """Join an absolute URL; raise RegistryFailure for one that is none, or has a user."""
    try:
        url = base.join(target)
    except (httpx.InvalidURL, ValueError):
        raise RegistryFailure("redirect_refused", "the registry names an invalid URL") from None
    is_web = url.scheme in ("http", "https") and (url.port or 443) in _PORTS
    if not target or len(target) > _MAX_URL or not is_web:
        raise RegistryFailure("redirect_refused", "the registry names an invalid URL")
    if url.userinfo or not url.host:
        raise RegistryFailure("redirect_refused", "the registry names a URL with a user")
    return url.copy_with(fragment=None)


def _redirect_target(base: httpx.URL, location: str) -> httpx.URL:
    target = join_url(base, location)
    if base.scheme == "https" and target.scheme != "https":
        raise RegistryFailure("redirect_refused", "the registry redirects from https to http")
    return target


def origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def with_query(target: str, **parameters: str) -> str:
    mark = "&" if "?" in target else "?"
    return f"{target}{mark}{urlencode(parameters)}"


def _trust(path: Path | None) -> ssl.SSLContext | None:
    """Return a context with the authorities of the host and those of a file."""
    if path is None:
        return None
    try:
        return _read_trust(path, path.stat().st_mtime_ns)
    except (OSError, ssl.SSLError):
        raise RegistryFailure(
            "ca_file_unreadable", "the file of REGISTRY_CA_FILE cannot be read"
        ) from None


@lru_cache(maxsize=4)
def _read_trust(path: Path, _modified: int) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(cafile=path)
    return context
