"""The file by which commands of this machine reach an `up` without a login.

`<DATA_DIR>/up.token` (mode 0600) holds the address on the loopback and an API token of the person
that `up` made. The commands of the client read the file; the next start revokes the token in it.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path
from typing import Final

from apps.accounts import api as accounts
from kernel.errors import PlatformError

FILE_NAME: Final = "up.token"
_MODE: Final = 0o600
_NAME: Final = "partita up"
_MAX_NAME: Final = 200
_MAX_FILE: Final = 4096  # characters of the file that are looked at
_CREDENTIAL: Final = "PARTITA_TOKEN"


def write_token_file(data_dir: Path, email: str, *, host: str, port: int, pages: str) -> str:
    """Replace the file and its token by those of this account; return a warning, or "".

    `pages` is the address that people type. Without an account (an empty `email`), and where `up`
    does not listen on the loopback, there is no file afterwards.
    """
    file = data_dir / FILE_NAME
    accounts.revoke_local_token(_token_in(file))  # its name may be that of a container that is gone
    file.unlink(missing_ok=True)
    loopback = loopback_of(host)
    if not loopback or not email:
        return ""
    name = f"{_NAME}: {socket.gethostname()} {data_dir}"[:_MAX_NAME]
    try:
        token = accounts.replace_administrator_token(email, name=name)
    except PlatformError as error:
        return f"commands of this machine must sign in, there is no {file}: {error}"
    values = {
        "PARTITA_URL": f"http://{loopback}:{port}",
        _CREDENTIAL: token,
        "PARTITA_PAGES": pages,
    }
    _replace(file, "".join(f"{name}={value}\n" for name, value in values.items()))
    return ""


def _token_in(file: Path) -> str:
    """Return the token that the last start wrote, "" without one."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            lines = opened.read(_MAX_FILE).splitlines()
    except FileNotFoundError:
        return ""
    found = (line.partition("=") for line in lines)
    return next((value for name, _, value in found if name == _CREDENTIAL), "")


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
