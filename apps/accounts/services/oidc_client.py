"""Talk to an OpenID provider: mozilla-django-oidc, and the checks that it leaves out.

It exchanges the code, finds the key, checks the signature and reads userinfo. Added here:
discovery, issuer, audience, times, the algorithms that the provider announces, and time limits.
Its views are not used: they keep the state in a session, which a browser without a cookie of this
site has not got yet. (reference: control-plane 3)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import jwt
import requests
from django.core.exceptions import SuspiciousOperation
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import generate_code_challenge

from apps.accounts.conf import LEEWAY, OidcSettings
from kernel.errors import PlatformError

_TIMEOUT_S: Final = 10.0
_DISCOVERY_LIFE_S: Final = 600.0
_MAX_DOCUMENT_BYTES: Final = 1 << 20
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512")
_REQUIRED_CLAIMS: Final = ["iss", "aud", "sub", "iat", "exp"]
_FAILURES: Final = (  # whatever a provider that misbehaves can cause
    requests.RequestException,
    SuspiciousOperation,
    jwt.PyJWTError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
)
Claims = dict[str, Any]  # of a token or of userinfo
_log = logging.getLogger("partita.accounts")


class ProviderError(PlatformError):
    """The identity provider cannot be reached, or its answer is not acceptable."""

    code = "oidc_provider_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    """What the provider's discovery document says (OpenID Connect Discovery, 3)."""

    authorization: str
    token: str
    userinfo: str
    jwks: str
    algorithms: tuple[str, ...]
    basic_auth: bool
    names_itself: bool  # in the callback (RFC 9207)


_found: dict[str, tuple[float, _Provider]] = {}  # issuer → (when, provider)
_finding = threading.Lock()


def discover(issuer: str) -> _Provider:
    """Return the provider's endpoints, at most ten minutes old; raise ProviderError."""
    with _finding:
        found = _found.get(issuer)
        if found is None or found[0] < time.monotonic() - _DISCOVERY_LIFE_S:
            found = _found[issuer] = (time.monotonic(), _discover(issuer))
    return found[1]


def forget_discovered() -> None:
    _found.clear()


def _discover(issuer: str) -> _Provider:
    url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        return _read(issuer, _document(url))
    except _FAILURES as error:
        raise _refusal("its configuration cannot be read", f"{url}: {error}") from error


def _document(url: str) -> Mapping[str, Any]:
    with requests.get(url, timeout=_TIMEOUT_S, stream=True, allow_redirects=False) as answer:
        if answer.status_code != requests.codes.ok:
            raise ValueError(f"status {answer.status_code}")
        content = answer.raw.read(_MAX_DOCUMENT_BYTES + 1, decode_content=True)
    if len(content) > _MAX_DOCUMENT_BYTES:
        raise ValueError("the document is too large")
    document = requests.compat.json.loads(content)  # type: ignore[attr-defined]
    if not isinstance(document, dict):
        raise TypeError("the document is not an object")
    return document


def _read(issuer: str, document: Mapping[str, Any]) -> _Provider:
    if document.get("issuer") != issuer:
        raise ValueError(f"the document names the issuer {document.get('issuer')!r:.200}")
    announced = document.get("id_token_signing_alg_values_supported", ["RS256"])
    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return _Provider(
        authorization=_endpoint(issuer, document["authorization_endpoint"]),
        token=_endpoint(issuer, document["token_endpoint"]),
        userinfo=_endpoint(issuer, document["userinfo_endpoint"]),
        jwks=_endpoint(issuer, document["jwks_uri"]),
        algorithms=tuple(name for name in _ALGORITHMS if name in announced),
        basic_auth="client_secret_post" not in methods,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _endpoint(issuer: str, url: str) -> str:
    """Check that an endpoint is not less protected than the issuer."""
    scheme = urlsplit(url).scheme
    if scheme != "https" and scheme != urlsplit(issuer).scheme:
        raise ValueError(f"the endpoint {url!r:.200} is not encrypted")
    return url


class OidcClient(OIDCAuthenticationBackend):  # type: ignore[misc]
    """Signs people in at the provider of `configured`; its methods raise ProviderError."""

    def __init__(self, configured: OidcSettings) -> None:
        self._configured = configured
        self._provider = discover(configured.issuer)
        super().__init__()

    def get_settings(self, attr: str, *default: Any) -> Any:
        """Return what the library would read from Django's settings."""
        own = {
            "OIDC_OP_TOKEN_ENDPOINT": self._provider.token,
            "OIDC_OP_USER_ENDPOINT": self._provider.userinfo,
            "OIDC_OP_JWKS_ENDPOINT": self._provider.jwks,
            "OIDC_RP_CLIENT_ID": self._configured.client_id,
            "OIDC_RP_CLIENT_SECRET": self._configured.client_secret,
            "OIDC_RP_SIGN_ALGO": "RS256",  # until the token says which
            "OIDC_TIMEOUT": _TIMEOUT_S,
            "OIDC_TOKEN_USE_BASIC_AUTH": self._provider.basic_auth,
        }
        return own.get(attr, *default)

    def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """Return where the browser goes to sign in, with a PKCE challenge (RFC 7636)."""
        query = {
            "response_type": "code",
            "scope": " ".join(self._configured.scopes),
            "client_id": self._configured.client_id,
            "redirect_uri": self._configured.redirect_url,
            "state": state,
            "nonce": nonce,
            "code_challenge": generate_code_challenge(verifier, "S256"),
            "code_challenge_method": "S256",
        }
        separator = "&" if urlsplit(self._provider.authorization).query else "?"
        return f"{self._provider.authorization}{separator}{urlencode(query)}"

    def check_issuer(self, named: str | None) -> None:
        """Check `iss` of the callback, where the provider sends or announces it (RFC 9207).

        So nobody is signed in by the answer of another provider that the browser was led to.
        """
        if named is None and not self._provider.names_itself:
            return
        if named != self._configured.issuer:
            raise _refusal("its answer names another issuer", f"iss={named!r:.200}")

    def claims(self, code: str, *, nonce: str, verifier: str) -> Claims:
        """Exchange the code; return the verified claims, the absent ones filled from userinfo."""
        try:
            tokens = self.get_token(self._code_request(code, verifier))
            token = tokens["id_token"]
            self.OIDC_RP_SIGN_ALGO = self._algorithm_of(token)
            verified: Claims = self.verify_token(token, nonce=nonce)
            return self._userinfo(tokens["access_token"], token, verified) | verified
        except _FAILURES as error:
            raise _refusal("its answer is not acceptable", str(error)) from error

    def _code_request(self, code: str, verifier: str) -> dict[str, str]:
        request = {
            "client_id": self._configured.client_id,
            "client_secret": self._configured.client_secret,
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._configured.redirect_url,
            "code_verifier": verifier,
        }
        if not self._configured.client_secret and not self._provider.basic_auth:
            del request["client_secret"]  # a public client has none
        return request

    def _algorithm_of(self, token: str) -> str:
        algorithm = str(jwt.get_unverified_header(token)["alg"])
        if algorithm not in self._provider.algorithms:
            raise ValueError(f"the algorithm {algorithm!r:.40} is not allowed")
        return algorithm

    def _verify_jws(self, payload: str, key: Any) -> Claims:
        """Check the signature, and what the library leaves out: issuer, audience, times."""
        claims: Claims = jwt.decode(
            payload,
            key,
            algorithms=[self._algorithm_of(payload)],
            issuer=self._configured.issuer,
            audience=self._configured.client_id,
            leeway=LEEWAY,
            options={"require": _REQUIRED_CLAIMS},
        )
        is_shared = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if is_shared and claims.get("azp") != self._configured.client_id:
            raise ValueError("the token was issued to another client")  # Core, 3.1.3.7
        return claims

    def _userinfo(self, access_token: str, token: str, verified: Claims) -> Claims:
        names = self._configured.claims
        if all(name in verified for name in (names.email, names.name, names.groups)):
            return {}
        told: Claims = self.get_userinfo(access_token, token, verified)
        if told.get("sub") != verified["sub"]:
            raise ValueError("userinfo is about another person")  # Core, 5.3.2
        return told


def _refusal(what: str, why: str) -> ProviderError:
    _log.warning("The sign-in provider failed, %s: %.500s", what, why)
    return ProviderError(f"the sign-in provider failed: {what}")
