"""What every answer tells browsers (reference: control-plane 2)."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.http import conf
from apps.http.middleware.base import AsyncMiddleware, GetResponse

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)


class SecurityHeadersMiddleware(AsyncMiddleware):
    """Sets what the view has not set itself (an artifact's `sandbox` policy stays)."""

    def __init__(self, get_response: GetResponse) -> None:
        super().__init__(get_response)
        self._headers = {
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        }
        if conf.is_secure_site():
            self._headers["Strict-Transport-Security"] = "max-age=31536000"

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = await self.get_response(request)
        for name, value in self._headers.items():
            response.headers.setdefault(name, value)
        return response
