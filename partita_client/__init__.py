"""Partita over HTTP: a client library that needs nothing but Python, and the command `partita`.

    from partita_client import Client

    client = Client("https://partita.example.com", token="pat_…")
    run = client.launch("shop", profile="ci.yaml")
    ended = client.wait(run["id"], timeout_s=600)
    print(ended["status"], ended["verdict"]["sentence"])

Documents are those of the reference (control-plane 9 to 12), as typed dictionaries; unknown keys
stay in them. Errors derive from `ClientError`. A GET, and a launch, is repeated when the server is
away for a moment; a stream goes on where it was cut, without a lost or doubled record.
"""

from __future__ import annotations

from partita_client.client import Client
from partita_client.errors import (
    ApiProblem,
    ClientError,
    NoConnection,
    NoServer,
    NotPartita,
    WaitTimeout,
)
from partita_client.release import VERSION

__all__ = [
    "VERSION",
    "ApiProblem",
    "Client",
    "ClientError",
    "NoConnection",
    "NoServer",
    "NotPartita",
    "WaitTimeout",
]
