from __future__ import annotations

from django.urls import path

from apps.catalog.rest.views import FavoriteViewSet, PackageViewSet

app_name = "catalog"
urlpatterns = [
    path("catalog/packages", PackageViewSet.as_view({"get": "list"}), name="packages"),
    path(
        "catalog/packages/<str:package_id>",
        PackageViewSet.as_view({"get": "retrieve"}),
        name="package",
    ),
    path("catalog/favorites", FavoriteViewSet.as_view({"get": "list"}), name="favorites"),
    path(
        "catalog/favorites/<str:package_id>",
        FavoriteViewSet.as_view({"post": "add", "delete": "destroy"}),
        name="favorite",
    ),
]
