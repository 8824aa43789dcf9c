"""All routes: each app's own, mounted by `platform_site.composition`."""

from __future__ import annotations

from platform_site.composition import routes

urlpatterns = routes()

handler400 = "platform_site.error_handler.on_bad_request"
handler403 = "platform_site.error_handler.on_forbidden"
handler404 = "platform_site.error_handler.on_not_found"
handler500 = "platform_site.error_handler.on_server_error"
