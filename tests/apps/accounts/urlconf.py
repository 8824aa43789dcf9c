"""The routes of accounts, and one of each kind of view that asks who is there."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.http import HttpRequest, JsonResponse
from django.urls import include, path, re_path
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api import (
    authenticate_stream,
    principal_of,
    recheck,
    sign_in_session,
    sign_out_session,
    sign_up_session,
)
from apps.accounts.rest import IsAdmin
from apps.accounts.services.authentication import require_principal
from apps.http.rest import StrictAPIView


@csrf_exempt  # the forms of the real pages are tested with them
def page_sign_in(request: HttpRequest) -> JsonResponse:
    sign_in_session(request, request.POST["email"], request.POST["password"])
    return JsonResponse({})


@csrf_exempt
def page_sign_up(request: HttpRequest) -> JsonResponse:
    form = request.POST
    sign_up_session(
        request, full_name=form["fullName"], email=form["email"], password=form["password"]
    )
    return JsonResponse({})


@csrf_exempt
def page_sign_out(request: HttpRequest) -> JsonResponse:
    sign_out_session(request)
    return JsonResponse({})


def page_whoami(request: HttpRequest) -> JsonResponse:
    principal = principal_of(request)
    return JsonResponse({"email": principal.email if principal else None})


async def plain_view(request: HttpRequest) -> JsonResponse:
    principal = await sync_to_async(require_principal)(request)
    return JsonResponse({"email": principal.email})


def stream(request: HttpRequest) -> JsonResponse:
    principal = authenticate_stream(request, request.path)
    return JsonResponse({"email": principal.email, "alive": recheck(principal)})


class AdminOnly(StrictAPIView):
    permission_classes = [IsAdmin]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return Response({"email": getattr(request.user, "email", None)})


urlpatterns = [
    path("api/v1/", include("apps.accounts.urls")),
    path("api/v1/admin-only", AdminOnly.as_view()),
    re_path(r"^api/v1/(?:executions/.*|engine/overview/stream)$", stream),
    path("plain", plain_view),
    path("page/sign-in", page_sign_in),
    path("page/sign-up", page_sign_up),
    path("page/sign-out", page_sign_out),
    path("page/whoami", page_whoami),
    path("", include("apps.console.urls")),
]
