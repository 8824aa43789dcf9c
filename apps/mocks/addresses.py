"""Where mocks are reached (reference: control-plane 18.1)."""

from __future__ import annotations

from urllib.parse import quote

from mocks.model.spaces import SpaceName


def mock_url(base_url: str, name: SpaceName, surface_id: str, adapter: str) -> str:
    """Return the address of a surface, such as `…/mocks/rest/shop@run-x/payments`."""
    space = quote(str(name), safe="@+~")
    return f"{base_url.rstrip('/')}/mocks/{adapter}/{space}/{quote(surface_id, safe='')}"
