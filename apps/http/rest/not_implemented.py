"""Known routes whose capability has not arrived: 501, behind the session their real form needs.

An app that arrives takes its rows out. Paths are relative to `/api/v1/`; `<str:x>` is one segment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NoReturn

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from apps.http.rest.strict import StrictAPIView
from kernel.errors import NotAvailable

NOT_IMPLEMENTED: Final[Mapping[str, tuple[str, ...]]] = {
    "sandboxes": ("GET",),
    "sandboxes/events": ("GET",),
    "sandboxes/reap-all": ("POST",),
    "sandboxes/<str:sandbox_id>/reap": ("POST",),
}
_DETAIL: Final = "this release does not have this capability yet"


@extend_schema(exclude=True)
class NotImplementedView(StrictAPIView):
    """`http_method_names` says which methods the real route has; any query is taken."""

    def allowed_parameters(self, request: Request) -> Collection[str]:
        return request.query_params.keys()

    def refuse(self, request: Request, **kwargs: str) -> NoReturn:
        raise NotAvailable(_DETAIL)

    get = post = put = delete = refuse


def not_implemented_view(methods: tuple[str, ...]) -> Any:
    names = [method.lower() for method in (*methods, "HEAD", "OPTIONS")]
    return NotImplementedView.as_view(http_method_names=names)
