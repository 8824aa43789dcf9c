"""Paths below `/accounts/`."""

from __future__ import annotations

from django.urls import path

from apps.social import views

app_name = "social"
urlpatterns = [
    path("<str:provider>/login/", views.login, name="login"),
    path("<str:provider>/login/callback/", views.callback, name="callback"),
]
