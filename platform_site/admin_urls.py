"""Paths below `/admin/`; importing this imports the admin modules of all apps."""

from __future__ import annotations

from importlib import import_module

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group
from django.utils.module_loading import autodiscover_modules

autodiscover_modules("admin", register_to=admin.site)
import_module("platform_site.admin_sync")  # the sync imports nothing of the control plane
admin.site.unregister(Group)  # what a member may do is the role in a workspace
for config in apps.get_app_configs():
    if config.name.partition(".")[0] == "allauth":  # its tables are not made: nothing uses them
        for model in filter(admin.site.is_registered, config.get_models()):
            admin.site.unregister(model)
urlpatterns = admin.site.urls[0]
