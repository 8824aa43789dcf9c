"""The wire form of a shell session (reference: control-plane 11.7)."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class ShellEndDocument(TypedDict):
    code: str
    detail: str


class ShellDocument(TypedDict):
    shellId: str
    executionId: str
    stepId: str
    state: str
    command: list[str]
    openedBy: str
    isYours: bool
    createdAt: str
    socket: str
    notice: NotRequired[str]
    openedAt: NotRequired[str]
    endedAt: NotRequired[str]
    exitCode: NotRequired[int]
    end: NotRequired[ShellEndDocument]


class ShellList(TypedDict):
    shells: list[ShellDocument]
