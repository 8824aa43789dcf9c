from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models


class Workspace(models.Model):  # noqa: DJ008 - nobody prints it
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)


class User(AbstractUser):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT)
