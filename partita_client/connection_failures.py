"""What a failed connection to a server means, in words, and what to do next."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from typing import Final

from partita_client import conf
from partita_client.addresses import ServerAddress, proxy_for
from partita_client.errors import NoConnection, NoTls, NotPartita, UnknownHost

AWAY: Final = (502, 503, 504)  # the server gave no answer: asked again at once, unlike after a 429
_TUNNEL_REFUSED: Final = re.compile(r"Tunnel connection failed: (\d{3}) ?(.{0,200})")
_CUTS: Final = (http.client.IncompleteRead, http.client.RemoteDisconnected)
_TLS_CUTS: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
_UNKNOWN_NAMES: Final = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
_ALERT: Final = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_(?:ALERT_)?(.+)")  # a reason of OpenSSL
_LASTING_ALERTS: Final = (
    *("protocol version", "handshake failure", "insufficient security", "certificate required"),
    *("bad certificate", "unknown ca", "no application protocol"),
)  # others pass, as while a proxy loads its certificates


def explain_failure(error: Exception, address: ServerAddress) -> NoConnection | NotPartita:
    """Return what a failed connection means, with what to do next."""
    url = address.url
    is_cut = isinstance(error, _CUTS) or (
        isinstance(error, http.client.BadStatusLine) and "HTTP/1.1 ".startswith(str(error)[:9])
    )
    if isinstance(error, http.client.HTTPException) and not is_cut:
        return NotPartita(
            f"{url} does not speak HTTP ({type(error).__name__})",
            advice="check scheme and port of the address",
            is_permanent=True,
        )
    if refusal := _TUNNEL_REFUSED.match(str(error)):
        return _explain_tunnel(int(refusal[1]), refusal[2], address)
    return _explain_connection(error, address)


def _explain_tunnel(status: int, reason: str, address: ServerAddress) -> NoConnection | NotPartita:
    """Return what the answer of a proxy to CONNECT means; only an absence may be tried again."""
    variable = getattr(proxy_for(address, conf.environment()), "variable", "environment")
    words = f"the proxy of {variable} refused {address.host_and_port}: {status} {reason}".rstrip()
    if status in AWAY:
        return NoConnection(words)
    advice = f"have the proxy let it pass, or go without: no_proxy={address.host}"
    if status == http.HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        advice = f"name a user in {variable}: http://USER:PASSWORD@HOST:PORT"
    return NotPartita(words, advice=advice, status=status)


def _explain_connection(error: Exception, address: ServerAddress) -> NoConnection:
    url = address.url
    match error:
        case ssl.SSLCertVerificationError():
            return NoConnection(
                f"the certificate of {url} cannot be verified: {error.verify_message}",
                advice="a private authority: --ca-file FILE, or PARTITA_CA_FILE",
                is_permanent=True,
            )
        case ssl.SSLError() if reason := _tls_reason(error):
            return _explain_tls(reason, address)
        case socket.gaierror():
            return _explain_lookup(error, address)
        case TimeoutError():
            words, advice = _name_way(address, "partita doctor")
            return NoConnection(f"{url}{words} does not answer in time", advice=advice)
        case _:
            cause = None if isinstance(error, _TLS_CUTS) else getattr(error, "strerror", None)
            words, advice = _name_way(address, "is it running there? On this machine: partita up")
            return NoConnection(
                f"no connection to {url}{words}: {cause or 'it was cut'}", advice=advice
            )


def _name_way(address: ServerAddress, advice: str) -> tuple[str, str]:
    """Return which proxy is on the way, and what to do next: the given advice without one."""
    proxy = proxy_for(address, conf.environment())
    if proxy is None:
        return "", advice
    way = f" through {proxy.host}:{proxy.port}, the proxy of {proxy.variable}"
    return way, f"check {proxy.variable}, or go without: no_proxy={address.host}"


def _tls_reason(error: ssl.SSLError) -> str:
    """Return why a handshake failed, empty where the connection was cut."""
    return "" if isinstance(error, _TLS_CUTS) else getattr(error, "reason", None) or ""


def _explain_tls(reason: str, address: ServerAddress) -> NoConnection:
    """Return what a failed handshake means; the reason is a word of OpenSSL.

    An alert tells that the other side speaks TLS.
    """
    if alert := _ALERT.match(reason):
        why = alert[1].replace("_", " ").lower()
        made = NoTls if why in _LASTING_ALERTS else NoConnection
        return made(
            f"{address.url} refuses a TLS connection: {why}",
            advice="check host and port of the address, and the TLS versions of both sides",
        )
    return NoTls(
        f"{address.url} does not speak TLS",
        advice=f"check scheme and port; without TLS it is http://{address.host_and_port}",
    )


def _explain_lookup(error: socket.gaierror, address: ServerAddress) -> NoConnection:
    proxy = proxy_for(address, conf.environment())
    host = f"{proxy.host}, the proxy of {proxy.variable}" if proxy else address.host
    if error.errno in _UNKNOWN_NAMES:
        what = proxy.variable if proxy else "the address"
        return UnknownHost(
            f"there is no host {host} ({error.strerror})",
            advice=f"check the spelling of {what}, and the DNS of this machine",
        )
    return NoConnection(
        f"the host {host} cannot be looked up: {error.strerror}",
        advice="check the network and the DNS of this machine",
    )
