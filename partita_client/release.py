"""The version of the client: that of the tree. The wheel has `kernel/version.py` in this place."""

from __future__ import annotations

from kernel.version import VERSION

__all__ = ["VERSION"]
