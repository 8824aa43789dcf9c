"""Console: the pages, above all apps. `platform_site` renders errors with `error_page`."""

from __future__ import annotations

from apps.console.services import error_page
