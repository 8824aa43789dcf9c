"""Django's admin, for administrators of the installation, behind the sign-in of the pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache


class AdminSite(admin.AdminSite):
    site_header = site_title = "Partita"
    index_title = "Partita administration"
    site_url = "/"
    enable_nav_sidebar = False

    @method_decorator(never_cache)
    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Send strangers to the sign-in of the pages, which counts and locks; refuse members."""
        if request.user.is_authenticated:
            raise PermissionDenied
        return HttpResponseRedirect("/sign-in?" + urlencode({"next": request.get_full_path()}))

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        raise Http404  # not by this form, which does not know the rules for passwords
