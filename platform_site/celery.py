"""The Celery application: `celery -A platform_site worker`."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "platform_site.settings.production")  # noqa: TID251

app = Celery("partita")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
