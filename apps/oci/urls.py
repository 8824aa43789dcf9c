"""Paths below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from apps.oci.rest.views import RegistrySyncView, RegistryTestView

app_name = "oci"
urlpatterns = [
    path(
        "platform-settings/registries/<str:registry_id>/sync",
        RegistrySyncView.as_view(),
        name="sync",
    ),
    path(
        "platform-settings/registries/<str:registry_id>/test",
        RegistryTestView.as_view(),
        name="test",
    ),
]
