from __future__ import annotations

from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from bench.peers.stock.models import User, Workspace


class WorkspaceSerializer(serializers.ModelSerializer):
    class Meta:
        model = Workspace
        fields = ["id", "slug", "name", "created_at"]


class UserSerializer(serializers.ModelSerializer):
    class Meta:
        model = User
        fields = [
            "id",
            "workspace_id",
            "username",
            "email",
            "first_name",
            "is_staff",
            "date_joined",
        ]


class MeView(APIView):
    def get(self, request: Request) -> Response:
        workspace = WorkspaceSerializer(request.user.workspace)
        return Response({"user": UserSerializer(request.user).data, "workspace": workspace.data})


urlpatterns = [path("api/v1/auth/me", MeView.as_view())]
