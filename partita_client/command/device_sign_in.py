"""Sign-in by a code that a person confirms in a browser (RFC 8628)."""

from __future__ import annotations

import socket
import time
from typing import Any, Final

from partita_client.client import Client
from partita_client.command.output import note, printable
from partita_client.errors import ApiProblem, ClientError, NoConnection, NotPartita, WaitTimeout
from partita_client.patience import is_passing
from partita_client.release import VERSION

_SLOWER_S: Final = 5  # RFC 8628, 3.5
_LONGEST_WAIT_S: Final = 3600
_SHORTEST_INTERVAL_S: Final = 1.0
_LONGEST_INTERVAL_S: Final = 60.0


def confirm_device(client: Client) -> Any:
    """Return the API token of a sign-in that a person confirms in a browser (RFC 8628)."""
    try:
        codes = client.begin_device_sign_in(f"partita {VERSION} on {socket.gethostname()}"[:80])
    except ApiProblem as error:
        if error.status not in (404, 405):
            raise
        raise ApiProblem(
            status=error.status,
            code="not_available",
            detail=f"{client.url} does not know sign-in by a code",
            advice="make an API token on its page Account: partita login URL --token-stdin",
        ) from None
    note(f"open {printable(codes.get('verificationUriComplete') or codes['verificationUri'])}")
    note(f"and confirm the code {printable(codes['userCode'])}; Ctrl-C gives up")
    interval = _interval_of(codes.get("interval", _SLOWER_S))
    ends_at = time.monotonic() + min(float(codes["expiresIn"]), _LONGEST_WAIT_S)
    while time.monotonic() < ends_at:
        time.sleep(interval)
        try:
            return client.device_token(codes["deviceCode"])
        except (ApiProblem, NoConnection, NotPartita) as error:  # NotPartita: a proxy before it
            interval = _next_interval(error, interval)
    raise WaitTimeout("the code has expired", advice="try again: partita login URL")


def _next_interval(error: ClientError, interval: float) -> float:
    """Return how long to wait before the next question; raise what ends the sign-in."""
    code = error.code if isinstance(error, ApiProblem) else ""
    if code == "authorization_pending":
        return interval
    if code == "slow_down" or is_passing(error):
        wanted = error.document.get("interval") if isinstance(error, ApiProblem) else None
        return max(_interval_of(interval + _SLOWER_S), _interval_of(wanted))
    if code == "access_denied":
        raise ClientError("the sign-in was denied on the page") from None
    if code == "expired_token":
        raise WaitTimeout("the code has expired", advice="try again: partita login URL") from None
    raise error


def _interval_of(wanted: object) -> float:
    """Return an interval of a server within the bounds of the client."""
    wanted_s = wanted if isinstance(wanted, int | float) else 0.0
    return min(_LONGEST_INTERVAL_S, max(_SHORTEST_INTERVAL_S, wanted_s))
