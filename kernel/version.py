"""The version of Partita, also that of its built-in modules."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
