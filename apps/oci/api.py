"""OCI registries: what they offer, pulled packages by digest, pushes. Knows nothing of suites."""

from __future__ import annotations

__all__: list[str] = []
