"""Libraries that the package `partita-mock` has as extras: they are large, and seldom needed."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Final, Literal

# Of each extra what is imported of it, the packages above first.
EXTRAS: Final = {
    "grpc": ("grpc", "grpc_tools", "grpc_health", "grpc_reflection", "google", "google.protobuf"),
    "scripts": ("starlark", "psutil"),
    "faker": ("faker",),
    "tls": ("cryptography",),
}
Extra = Literal["grpc", "scripts", "faker", "tls"]


@cache
def missing_extra(extra: Extra) -> str:
    """Return what a text about something that needs the libraries says; "" where they are there."""
    if all(map(find_spec, EXTRAS[extra])):
        return ""
    return f"needs a library that is not installed: pip install 'partita-mock[{extra}]'"
