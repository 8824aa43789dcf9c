"""`/api/v1/auth/device`: sign-in of a program by a code (reference: control-plane 3)."""

from __future__ import annotations

from typing import Any, Final, TypedDict

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import conf
from apps.accounts.domain.device_codes import MAX_CLIENT
from apps.accounts.rest.api_tokens import ApiTokenCreated
from apps.accounts.rest.serializers import WorkspaceSerializer
from apps.accounts.rest.views import PublicView
from apps.accounts.services.device_authorization import (
    begin_device_authorization,
    redeem_device_code,
)
from apps.accounts.services.rate_limits import DEVICE_TOKEN, limit_by_ip
from apps.http.api import client_ip
from apps.http.rest import StrictSerializer

_NO_STORE: Final = {"Cache-Control": "no-store"}  # RFC 8628, 3.2
_DEVICE_CODE: Final = "GmRhmhcxhwAzkoEqiMEg-DnyEysNkuNhszIySk9eSYE"
_BEGUN: Final = OpenApiExample(
    "a code to confirm",
    response_only=True,
    value={
        "deviceCode": _DEVICE_CODE,
        "userCode": "WDJB-MJHT",
        "verificationUri": "https://partita.example/device",
        "verificationUriComplete": "https://partita.example/device?code=WDJB-MJHT",
        "expiresIn": 600,
        "interval": 5,
    },
)
_FETCHED: Final = OpenApiExample(
    "approved",
    response_only=True,
    value={
        "tokenId": "6f1c2b1e-52a5-4b6a-9d0f-0e3f6f9f1f11",
        "name": "partita 1.2 on ann-laptop",
        "scope": "run",
        "createdAt": "2026-01-02T03:04:05.123Z",
        "expiresAt": "2026-02-01T03:04:05.123Z",
        "token": "pat_GmRhmhcxhwAzkoEqiMEg-DnyEysNkuNhszIySk9eSYE",
        "email": "ann@example.org",
        "workspace": {
            "workspaceId": "0d7a1f0e-6f0b-4f0c-8b7b-6b1f1d2c3a4b",
            "slug": "ann",
            "name": "Ann's workspace",
            "createdAt": "2026-01-01T00:00:00.000Z",
        },
    },
)


class DeviceInput(StrictSerializer):
    client = serializers.CharField(
        max_length=MAX_CLIENT, help_text="what the program is, as the person will read it"
    )


class DeviceTokenInput(StrictSerializer):
    deviceCode = serializers.CharField(max_length=128)


class DeviceCodeDocument(TypedDict):
    """The codes of a sign-in that a person has to confirm; times in seconds."""

    deviceCode: str
    userCode: str
    verificationUri: str
    verificationUriComplete: str
    expiresIn: int
    interval: int


class DeviceToken(ApiTokenCreated):
    """An API token, and whose it is."""

    email = serializers.CharField()
    workspace = WorkspaceSerializer()

    def to_representation(self, instance: Any) -> Any:
        user = instance.row.user
        workspace = WorkspaceSerializer(user.workspace).data
        return super().to_representation(instance) | {"email": user.email, "workspace": workspace}


class DeviceView(PublicView):
    """Begins the sign-in of a program: a person confirms `userCode` at `verificationUri`."""

    @extend_schema(
        operation_id="auth_device",
        request=DeviceInput,
        responses=DeviceCodeDocument,
        examples=[
            OpenApiExample(
                "a laptop", request_only=True, value={"client": "partita 1.2 on ann-laptop"}
            ),
            _BEGUN,
        ],
    )
    def post(self, request: Request) -> Response:
        begun = begin_device_authorization(
            client=self.body(DeviceInput)["client"], address=client_ip(request)
        )
        answer: DeviceCodeDocument = {
            "deviceCode": begun.device_code,
            "userCode": begun.user_code,
            "verificationUri": begun.verification_uri,
            "verificationUriComplete": begun.verification_uri_complete,
            "expiresIn": int(conf.DEVICE_CODE_LIFE.total_seconds()),
            "interval": begun.row.interval_s,
        }
        return Response(answer, headers=_NO_STORE)


class DeviceTokenView(PublicView):
    """Returns the token once it is approved; before, 400 `authorization_pending` or `slow_down`.

    Wait `interval` seconds between requests. `access_denied` and `expired_token` are final.
    """

    @extend_schema(
        operation_id="auth_device_token",
        request=DeviceTokenInput,
        responses=DeviceToken,
        examples=[
            OpenApiExample("the code", request_only=True, value={"deviceCode": _DEVICE_CODE}),
            _FETCHED,
        ],
    )
    def post(self, request: Request) -> Response:
        limit_by_ip(request, DEVICE_TOKEN)
        made = redeem_device_code(self.body(DeviceTokenInput)["deviceCode"])
        return Response(DeviceToken(made).data, headers=_NO_STORE)
