"""Catalog: what registries, the workspace and the built-in modules offer, and favorites."""

from __future__ import annotations

__all__: list[str] = []
