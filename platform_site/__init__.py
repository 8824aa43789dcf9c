"""The Django project: settings, routes, entry points and the wiring between apps."""

from __future__ import annotations

from platform_site.celery import app as celery_app

__all__ = ["celery_app"]
