"""The file by which commands of this machine reach an `up` without a login.

`<DATA_DIR>/up.token` (mode 0600) holds the address on the loopback and an API token of the person
that `up` made. The next start replaces the token; the commands of the client read the file.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path
from typing import Final

from apps.accounts import api as accounts

FILE_NAME: Final = "up.token"
_MODE: Final = 0o600
_NAME: Final = "partita up"
_MAX_NAME: Final = 200


def write_token_file(data_dir: Path, email: str, *, host: str, port: int, pages: str) -> bool:
    """Write the file for the account of this mail address; return whether there is one now.

    `pages` is the address that people type. An `up` that does not listen on the loopback has no
    such file.
    """
    file = data_dir / FILE_NAME
    loopback = loopback_of(host)
    if not loopback:
        file.unlink(missing_ok=True)
        return False
    name = f"{_NAME}: {socket.gethostname()} {data_dir}"[:_MAX_NAME]
    token = accounts.replace_administrator_token(email, name=name)
    values = {
        "PARTITA_URL": f"http://{loopback}:{port}",
        "PARTITA_TOKEN": token,
        "PARTITA_PAGES": pages,
    }
    _replace(file, "".join(f"{name}={value}\n" for name, value in values.items()))
    return True


def loopback_of(host: str) -> str:
    """Return the loopback address that reaches a server on `host`; empty if none does."""
    if host == "localhost":
        return host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # a name
        return ""
    if address.is_loopback:
        return f"[{host}]" if address.version == 6 else host  # noqa: PLR2004 - IPv6
    if not address.is_unspecified:
        return ""
    return "127.0.0.1" if address.version == 4 else "[::1]"  # noqa: PLR2004 - IPv4


def _replace(file: Path, text: str) -> None:
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
    new.replace(file)
