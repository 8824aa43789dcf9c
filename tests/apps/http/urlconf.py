"""Small views that show what the pipeline does around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_protect
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.http.rest import (
    PAGING,
    StrictAPIView,
    StrictSerializer,
    conditional_response,
    paginate,
    require_match,
)
from apps.observability.api import request_context
from kernel.errors import FieldError, InvalidInput, PlatformError
from platform_site import urls as site_urls

NAMES = ["beta", "alpha", "delta", "gamma", "epsilon"]


class Open(StrictAPIView):
    authentication_classes = []
    permission_classes = []


class Nested(StrictSerializer):
    depth = serializers.IntegerField(min_value=0)


class Order(StrictSerializer):
    fileName = serializers.CharField()  # noqa: N815 - as on the wire
    count = serializers.IntegerField(required=False)
    flag = serializers.BooleanField(required=False)
    tags = serializers.ListField(child=serializers.CharField(), required=False)
    env = serializers.DictField(child=serializers.CharField(), required=False)
    nested = Nested(required=False)
    lines = Nested(many=True, required=False)


class Lenient(StrictSerializer):
    ignore_unknown = True
    name = serializers.CharField()


class Echo(Open):
    query_parameters = {"POST": ("dry",)}

    def post(self, request: Request) -> Response:
        return Response(self.body(Order))


class Tolerant(Open):
    def post(self, request: Request) -> Response:
        return Response(self.body(Lenient))


class Names(Open):
    query_parameters = PAGING | {"q"}

    def get(self, request: Request) -> Response:
        page = paginate(request, NAMES, key=lambda name: [name])
        return Response(page.as_dict("names", page.items, total=len(NAMES)))


class Signed(StrictAPIView):
    def get(self, request: Request) -> Response:
        return Response({"hello": "somebody"})


class Document(Open):
    stored = {"name": "shop", "tags": ["a"]}

    def get(self, request: Request) -> Response:
        return conditional_response(request, self.stored)

    def put(self, request: Request) -> Response:
        require_match(request, self.stored)
        return conditional_response(request, self.stored)


class Fault(Open):
    def get(self, request: Request) -> Response:
        raise RuntimeError("the password is hunter2")


def plain_fault(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("the password is hunter2")


def refusal(request: HttpRequest) -> HttpResponse:
    raise InvalidInput(
        "fileName must end in .yaml or .yml",
        errors=[
            FieldError(
                pointer="/fileName", code="invalid_extension", detail="must end in .yaml or .yml"
            )
        ],
    )


def busy(request: HttpRequest) -> HttpResponse:
    raise PlatformError("too many runs wait", code="queue_full", retry_after_s=7)


def facts(request: HttpRequest, thing_id: str) -> HttpResponse:
    context = request_context()
    return HttpResponse(f"{context.request_id} {context.route}")


@csrf_protect
def form(request: HttpRequest) -> HttpResponse:
    return HttpResponse("taken")


async def stream(request: HttpRequest) -> StreamingHttpResponse:
    async def records() -> AsyncGenerator[bytes]:
        for number in range(3):
            yield f"id: {number}\n\n".encode()
            await asyncio.sleep(0)

    return StreamingHttpResponse(records(), content_type="text/event-stream")


async def endless(request: HttpRequest) -> StreamingHttpResponse:
    async def records() -> AsyncGenerator[bytes]:
        yield b": connected\n\n"
        await asyncio.Event().wait()

    return StreamingHttpResponse(records(), content_type="text/event-stream")


async def slow(request: HttpRequest) -> HttpResponse:
    await asyncio.Event().wait()
    return HttpResponse()


async def sandboxed(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<script>", headers={"Content-Security-Policy": "sandbox"})


urlpatterns = [
    path("api/v1/things/<str:thing_id>", facts),
    path("api/v1/echo", Echo.as_view()),
    path("api/v1/tolerant", Tolerant.as_view()),
    path("api/v1/names", Names.as_view()),
    path("api/v1/more-names", Names.as_view()),
    path("api/v1/document", Document.as_view()),
    path("api/v1/signed", Signed.as_view()),
    path("api/v1/fault", Fault.as_view()),
    path("api/v1/plain-fault", plain_fault),
    path("api/v1/profiles/suites/shop", refusal),
    path("api/v1/busy", busy),
    path("api/v1/stream", stream),
    path("api/v1/endless", endless),
    path("api/v1/slow", slow),
    path("api/v1/sandboxed", sandboxed),
    path("sign-in", form),
    *site_urls.urlpatterns,
]
handler400 = site_urls.handler400
handler403 = site_urls.handler403
handler404 = site_urls.handler404
handler500 = site_urls.handler500
