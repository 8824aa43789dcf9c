"""Why a registry cannot be used: a stable code, and words that hold nothing it said."""

from __future__ import annotations


class RegistryFailure(Exception):
    """A registry cannot be used; `code` is stable, `status` what it answered or 0."""

    def __init__(self, code: str, detail: str, *, status: int = 0) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.status = status


class CatalogRefused(RegistryFailure):
    """The registry does not list its repositories."""
