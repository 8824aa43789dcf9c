"""Paths below `/admin/`; importing this imports the admin modules of all apps."""

from __future__ import annotations

from importlib import import_module

from django.contrib import admin
from django.contrib.auth.models import Group
from django.utils.module_loading import autodiscover_modules

autodiscover_modules("admin", register_to=admin.site)
import_module("platform_site.admin_sync")  # the sync imports nothing of the control plane
admin.site.unregister(Group)  # what a member may do is the role in a workspace
urlpatterns = admin.site.urls[0]
