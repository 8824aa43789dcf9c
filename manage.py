#!/usr/bin/env python
"""Partita's commands. `python manage.py help` lists them."""

from __future__ import annotations

import os
import sys

SYNC_COMMANDS = ("run_orchestrator", "run_watcher", "sync_")


def settings_module(command: str) -> str:
    """Commands of the sync stack need no account, no page and no JWT_SECRET."""
    if command == "run_gateway":
        return "platform_site.settings.gateway"
    if command.startswith(SYNC_COMMANDS):
        return "platform_site.settings.sync"
    return "platform_site.settings.local"


def main() -> None:
    module = settings_module(sys.argv[1] if len(sys.argv) > 1 else "")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", module)  # noqa: TID251
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2 if module.endswith(".local") else 78)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # before the command could look after it
        sys.exit(130)
