"""Addresses of servers and proxies, as people write them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from partita_client.errors import BadConfiguration

_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_HOST: Final = re.compile(r"[A-Za-z0-9._:-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Scheme, host, port and the path below which Partita answers (empty or `/partita`)."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def is_loopback(self) -> bool:
        return self.host in _LOOPBACK or self.host.endswith(".localhost")

    @property
    def host_and_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address as it is kept and shown, without a slash at the end."""
        return f"{self.scheme}://{self.host_and_port}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyAddress:
    host: str
    port: int
    authorization: str  # a header, empty without a user
    variable: str  # of the environment, which names it

    @property
    def headers(self) -> dict[str, str]:
        return {"Proxy-Authorization": self.authorization} if self.authorization else {}


def parse_address(text: str) -> ServerAddress:
    """Return the address; raise BadConfiguration for what is none.

    Without a scheme it is https, for this machine http. The address of a page of Partita is that
    of its server.
    """
    text = text.strip()
    if "://" not in text:
        host = text.split("/")[0].rsplit(":", 1)[0].strip("[]")
        text = f"{'http' if host in _LOOPBACK else 'https'}://{text}"
    if not text.isprintable() or " " in text:  # urlsplit drops some of these
        raise BadConfiguration(f"{text!r} is not an address of a server")
    example = "expected an address such as https://partita.example.com"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadConfiguration(f"{text}: {error}; {example}") from None
    if parts.scheme not in _PORTS or not parts.hostname or not _HOST.fullmatch(parts.hostname):
        raise BadConfiguration(f"{text!r} is not an address of a server: {example}")
    if "]" in parts.netloc and not re.fullmatch(r".*\](:\d*)?", parts.netloc):
        raise BadConfiguration(f"{text!r} is not an address of a server: {example}")
    if parts.username or parts.password:
        raise BadConfiguration(
            "an address holds no password: it would be shown and kept",
            advice=f"partita login {parts.scheme}://{parts.hostname} --token-stdin",
        )
    path = re.split(r"/(?:api/v1|executions|suites|catalog|sign-in)\b", parts.path)[0].rstrip("/")
    return ServerAddress(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        path=path,
    )


def proxy_for(address: ServerAddress, environment: Mapping[str, str]) -> ProxyAddress | None:
    """Return the proxy that the environment names for an address; none for this machine.

    `https_proxy`, `http_proxy`, `all_proxy` and `no_proxy`, in lower or upper case.
    """
    if address.is_loopback or _is_exempt(address, _read(environment, "no_proxy")):
        return None
    for name in (f"{address.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if text := environment.get(variable, "").strip():
                return _parse_proxy(text, variable)
    return None


def _read(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name) or environment.get(name.upper()) or "").strip()


def _is_exempt(address: ServerAddress, names: str) -> bool:
    for name in (each.strip().lower() for each in names.split(",")):
        host, _, port = name.partition(":")
        if port and port != str(address.port):
            continue
        host = host.lstrip("*").lstrip(".")
        if name == "*" or (host and f".{address.host.lower()}".endswith(f".{host}")):
            return True
    return False


def _parse_proxy(text: str, variable: str) -> ProxyAddress:
    """Return a proxy; raise BadConfiguration, which does not show its password."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        raise _no_proxy(text, variable) from None
    if parts.scheme != "http" or not parts.hostname:
        raise _no_proxy(text, variable)
    authorization = ""
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return ProxyAddress(
        host=parts.hostname, port=port or 80, authorization=authorization, variable=variable
    )


def _no_proxy(text: str, variable: str) -> BadConfiguration:
    before, at, after = text.rpartition("@")
    scheme = before.partition("://")[0] if at and "://" in before else ""
    shown = f"{scheme}://{after}" if scheme else after
    return BadConfiguration(f"{variable}={shown}: expected a proxy such as http://proxy:3128")
