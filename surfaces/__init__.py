"""API surfaces of a suite, from its contracts (api/) and mocks (mock/)."""

from __future__ import annotations

from surfaces.documents import (
    HydratedSurfaces,
    SurfaceDocument,
    hydrate,
    surface_documents,
)
from surfaces.hydration import surfaces_of
from surfaces.model import Surface, examples_of

__all__ = [
    "HydratedSurfaces",
    "Surface",
    "SurfaceDocument",
    "examples_of",
    "hydrate",
    "surface_documents",
    "surfaces_of",
]
