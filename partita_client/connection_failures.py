"""What a failed connection to a server means, in words, and what to do next."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from typing import Final

from partita_client import conf
from partita_client.addresses import ServerAddress, proxy_for
from partita_client.errors import NoConnection, NotPartita

AWAY: Final = (502, 503, 504)  # of a proxy, for a server that does not answer
_TUNNEL_REFUSED: Final = re.compile(r"Tunnel connection failed: (\d{3}) ?(.{0,200})")
_CUTS: Final = (http.client.IncompleteRead, http.client.RemoteDisconnected)


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
    words, advice = _describe(error, address)
    is_permanent = isinstance(error, ssl.SSLCertVerificationError)
    return NoConnection(words.format(url=url), advice=advice, is_permanent=is_permanent)


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


def _describe(error: Exception, address: ServerAddress) -> tuple[str, str]:
    match error:
        case ssl.SSLCertVerificationError():
            words = f"the certificate of {{url}} cannot be verified: {error.verify_message}"
            advice = "a private authority: --ca-file FILE, or PARTITA_CA_FILE"
        case ssl.SSLError():
            words, advice = "{url} does not speak TLS", f"try http://{address.host_and_port}"
        case socket.gaierror():
            words = f"there is no host {address.host} ({error.strerror})"
            advice = "check the address"
        case TimeoutError():
            words, advice = "{url} does not answer in time", "partita doctor"
        case _:
            cause = getattr(error, "strerror", None) or "it was cut"
            words = f"no connection to {{url}}: {cause}"
            advice = "is it running there? On this machine: partita up"
    return words, advice
