"""Django's admin among the installed apps."""

from __future__ import annotations

from django.contrib.admin.apps import SimpleAdminConfig


class AdminConfig(SimpleAdminConfig):
    """Finds the admin modules of the apps when `/admin/` is first asked for: see `admin_urls`."""

    default_site = "platform_site.admin.AdminSite"
