"""The environment as others see it: plug-ins of a kubeconfig, checks of containers, the desktop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_NAMES: Final = frozenset(
    {
        *("HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("SSL_CERT_DIR", "SSL_CERT_FILE"),
    }
)
_PREFIXES: Final = ("AWS_", "AZURE_", "CLOUDSDK_", "GOOGLE_", "LC_", "XDG_")


def plugin_environment() -> dict[str, str]:
    """Return what a plug-in may see: no secret of Partita."""
    return {
        name: value
        for name, value in os.environ.items()  # noqa: TID251
        if name in _NAMES or name.startswith(_PREFIXES)
    }


def container_environment() -> Mapping[str, str]:
    """Return the variables of this process, which a check has from its container's definition."""
    return os.environ  # noqa: TID251 - the check reads no settings


def state_folder() -> Path:
    """Return where Partita keeps what belongs to the user of this machine, such as certificates."""
    state = os.environ.get("XDG_STATE_HOME")  # noqa: TID251 - a folder, no setting of ours
    return Path(state or Path.home() / ".local" / "state") / "partita"
