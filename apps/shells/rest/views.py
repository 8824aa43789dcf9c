"""`/api/v1/executions/{id}/shells` (reference: control-plane 11.7)."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import PrincipalMixin
from apps.executions.api import get_execution
from apps.http.api import client_ip
from apps.http.rest import StrictViewSet
from apps.shells.domain.documents import ShellDocument, ShellList
from apps.shells.rest import schemas
from apps.shells.selectors import shells_of_run
from apps.shells.services import sessions
from apps.shells.services.sessions import ShellWish


class ShellViewSet(PrincipalMixin, StrictViewSet):  # the terminal is a WebSocket
    @extend_schema(operation_id="shells_list", responses=ShellList)
    def list_shells(self, request: Request, **path: str) -> Response:
        return Response(shells_of_run(self.principal, path["executionId"]))

    @extend_schema(
        operation_id="shells_open", request=schemas.OpenShellInput, responses={201: ShellDocument}
    )
    def open_shell(self, request: Request, **path: str) -> Response:
        run_id = path["executionId"]
        get_execution(self.principal, run_id)  # a foreign run is not found, whatever the body says
        body = self.body(schemas.OpenShellInput)
        wish = ShellWish(
            step_id=body["stepId"],
            command=tuple(body.get("command") or ()),
            columns=body["columns"],
            rows=body["rows"],
        )
        opened = sessions.open_shell(
            self.principal,
            run_id,
            wish,
            address=client_ip(request._request),  # noqa: SLF001
        )
        location = reverse("shells:shell", args=[run_id, opened["shellId"]])
        return Response(opened, status=201, headers={"Location": location})

    @extend_schema(operation_id="shells_end", request=None, responses={204: None})
    def end_shell(self, request: Request, **path: Any) -> Response:
        sessions.end_shell(self.principal, path["executionId"], path["shellId"])
        return Response(status=204)
