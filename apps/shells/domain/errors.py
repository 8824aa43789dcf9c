"""Why a shell is refused."""

from __future__ import annotations

from kernel.errors import PlatformError


class ShellNotFound(PlatformError):
    code = "shell_not_found"

    def __init__(self) -> None:
        super().__init__("There is no such shell, or it is not yours")


class ShellRefused(PlatformError):
    """The step has nothing that can be entered from here; the text says what to do."""

    code = "shell_unavailable"


class ShellsOff(PlatformError):
    """SHELL_ACCESS closes shells, to all or to all but the owner of the run."""

    code = "shells_off"


class TooManyShells(PlatformError):
    code = "too_many_shells"
