"""Routes that this release does not have yet: they answer 501 `not_available`.

An app that arrives takes its rows out. Paths are relative to `/api/v1/`; `{x}` is one segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOT_IMPLEMENTED: Final[Mapping[str, tuple[str, ...]]] = {
    "platform-settings": ("GET", "PUT"),
    "platform-settings/registries/<str:registry_id>/sync": ("POST",),
    "catalog/packages": ("GET",),
    "catalog/packages/<str:package_id>": ("GET",),
    "catalog/favorites": ("GET",),
    "catalog/favorites/<str:package_id>": ("POST", "DELETE"),
    "profiles/suites": ("GET",),
    "profiles/suites/<str:suite_id>": ("GET", "POST"),
    "profiles/suites/<str:suite_id>/<str:profile_id>": ("PUT", "DELETE"),
    "profiles/suites/<str:suite_id>/<str:profile_id>/default": ("POST",),
    "sandboxes": ("GET",),
    "sandboxes/events": ("GET",),
    "sandboxes/reap-all": ("POST",),
    "sandboxes/<str:sandbox_id>/reap": ("POST",),
    "mocks/explain": ("POST",),
    "mocks/state": ("GET", "DELETE"),
    "mocks/journal": ("GET", "DELETE"),
}
MOCK_ROUTES: Final = ("mocks/<path:path>", "internal/mock-data/<path:path>")
