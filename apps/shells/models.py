"""Rows of shell sessions. Their input and output are topics of `apps.streams`."""

from __future__ import annotations

from django.db import models

from apps.shells.domain.states import ShellState
from kernel.ids import new_uuid


class ShellSession(models.Model):
    """A program on a terminal inside the environment of a run.

    `slot` is unique, so that a workspace has at most SHELL_MAX live ones: its id and a number while
    the session lives, afterwards the id of the row. `agent_id` is the supervisor that has the unit;
    its runner holds the session under a lease. `client_seen_at` changes while a client is there.
    `read_id` is the last record of the output that a client got, `taken_id` the last one of the
    input that the program got. `trimmed` says that the topics are deleted.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    slot = models.CharField(max_length=64, unique=True)
    run_id = models.CharField(max_length=16)
    workspace_id = models.UUIDField()
    step_id = models.CharField(max_length=300)
    agent_id = models.CharField(max_length=128)
    command = models.JSONField(default=list)
    columns = models.PositiveIntegerField()
    rows = models.PositiveIntegerField()
    state = models.CharField(max_length=8, default=ShellState.OPENING)
    opened_by = models.UUIDField()
    opened_by_label = models.CharField(max_length=700, blank=True)
    opened_from = models.CharField(max_length=64, blank=True)
    notice = models.TextField(blank=True)
    created_at = models.DateTimeField()
    opened_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    end_code = models.CharField(max_length=32, blank=True)
    end_detail = models.TextField(blank=True)
    client_seen_at = models.DateTimeField()
    read_id = models.PositiveBigIntegerField(default=0)
    taken_id = models.PositiveBigIntegerField(default=0)
    holder = models.CharField(max_length=64, blank=True)
    lease_expires_at = models.DateTimeField()
    trimmed = models.BooleanField(default=False)

    class Meta:
        indexes = [
            models.Index(fields=["state", "agent_id"], name="shell_by_state"),
            models.Index(fields=["run_id", "created_at"], name="shell_by_run"),
            models.Index(fields=["trimmed", "ended_at"], name="shell_by_end"),
        ]

    def __str__(self) -> str:
        return f"{self.step_id} of {self.run_id} ({self.state})"
