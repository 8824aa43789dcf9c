"""Favorites: each user's own marks; no registry is touched."""

from __future__ import annotations

from apps.accounts.api import Forbidden, Principal, Role
from apps.catalog.models import Favorite
from apps.catalog.selectors import find_entry
from apps.operations.api import raise_generation
from apps.streams.api import unit_of_work
from kernel.ids import is_identifier


def add_favorite(principal: Principal, package_id: str) -> None:
    """Mark a package; a package that is marked already stays so. Raise PackageNotFound."""
    _require_writer(principal)
    find_entry(package_id)
    _mark(principal, package_id)


@unit_of_work
def _mark(principal: Principal, package_id: str) -> None:
    user_id = principal.user_id
    if not Favorite.objects.filter(user_id=user_id, package_id=package_id).exists():
        Favorite.objects.create(user_id=user_id, package_id=package_id)
        raise_generation("favorites")


def remove_favorite(principal: Principal, package_id: str) -> None:
    """Take the mark away, also from a package that is gone; without a mark nothing happens."""
    _require_writer(principal)
    if is_identifier(package_id):  # nothing else can be marked
        _unmark(principal, package_id)


@unit_of_work
def _unmark(principal: Principal, package_id: str) -> None:
    removed, _ = Favorite.objects.filter(user_id=principal.user_id, package_id=package_id).delete()
    if removed:
        raise_generation("favorites")


def _require_writer(principal: Principal) -> None:
    """Raise Forbidden for an API token that only reads; a viewer has favorites like anybody."""
    if principal.ceiling is Role.VIEWER:
        raise Forbidden("an API token of the scope read changes nothing", code="role_required")
