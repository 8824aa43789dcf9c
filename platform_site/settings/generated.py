"""Secrets of the sync stack that a first start made below TLS_AUTO_DIR.

(reference: sync-stack 7.3)
"""

from __future__ import annotations

from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from kernel import clock
from platform_site.settings import env
from sync_stack.configuration.startup import StateFolderUnusable, read_secret


def prepare() -> tuple[str, ...]:
    """Make what is missing, before anything asks for it; what is to be logged of it."""
    from sync_stack.rpc.first_start import prepare as make  # it loads gRPC: workers do without

    folder = env.text("TLS_AUTO_DIR")
    if not folder:
        return ()
    try:
        return make(Path(folder), clock.now()).lines()
    except StateFolderUnusable as error:
        raise ImproperlyConfigured(str(error)) from None


def secret(name: str) -> str:
    """Empty without TLS_AUTO_DIR, and where nothing was made."""
    folder = env.text("TLS_AUTO_DIR")
    try:
        return read_secret(Path(folder), name) if folder else ""
    except StateFolderUnusable as error:
        raise ImproperlyConfigured(str(error)) from None
