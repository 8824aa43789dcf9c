"""The project's Celery application, imported at its first use: no plain command pays for Celery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.module_loading import import_string

from apps.operations import conf

if TYPE_CHECKING:
    from celery import Celery


def celery_application() -> Celery:
    application: Celery = import_string(conf.celery_application())
    return application
