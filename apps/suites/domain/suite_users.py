"""Who needs a suite that is about to change or go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kernel.registry import Registry

# Apps above know who uses a suite: each declares, as `suite_users` in its `apps.py`, a function of
# the suite's id, which returns whether an active run needs it.
suite_users: Final[Registry[Callable[[str], bool]]] = Registry("suite user")
