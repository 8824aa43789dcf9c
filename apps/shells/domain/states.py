"""The states of a shell session, why one ends, and why one is refused.

(reference: control-plane 11.7)
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from kernel.errors import PlatformError


class ShellState(StrEnum):
    OPENING = "opening"
    OPEN = "open"
    ENDED = "ended"


LIVE: Final = (str(ShellState.OPENING), str(ShellState.OPEN))


class EndCode(StrEnum):
    """Why a session ended, for programs; `END_WORDS` has it for people."""

    EXITED = "exited"
    ENDED_BY_USER = "ended_by_user"
    CLIENT_LEFT = "client_left"
    IDLE = "idle"
    NOT_KEPT = "not_kept"
    RUNNER_RESTARTED = "runner_restarted"
    RUNNER_GONE = "runner_gone"
    NOT_OPENED = "not_opened"
    UNIT_LOST = "unit_lost"


END_WORDS: Final = {
    EndCode.EXITED: "the program ended",
    EndCode.ENDED_BY_USER: "someone ended the shell",
    EndCode.CLIENT_LEFT: "nobody reconnected within 60 s after the connection was lost",
    EndCode.IDLE: "nothing was typed or written for too long",
    EndCode.NOT_KEPT: "the environment of the run is no longer kept",
    EndCode.RUNNER_RESTARTED: "the runner restarted",
    EndCode.RUNNER_GONE: "the runner is gone",
    EndCode.NOT_OPENED: "the shell could not be opened",
    EndCode.UNIT_LOST: "the runtime lost the step or did not answer",
}


class ShellNotFound(PlatformError):
    code = "shell_not_found"

    def __init__(self) -> None:
        super().__init__("This shell does not exist, or it is not yours")


class ShellRefused(PlatformError):
    """The step has nothing that can be entered from here; the text says what to do."""

    code = "shell_unavailable"


class ShellsOff(PlatformError):
    """SHELL_ACCESS closes shells, to all or to all but the owner of the run."""

    code = "shells_off"


class TooManyShells(PlatformError):
    code = "too_many_shells"
