from __future__ import annotations

from django.apps import AppConfig


class MocksConfig(AppConfig):
    name = "apps.mocks"
    label = "mocks"
