"""Facts about runs that stop a use case; each edge translates them once."""

from __future__ import annotations

from kernel.errors import NotFound, PlatformError


class ExecutionNotFound(NotFound):
    """No such run, a deleted one, or one of another workspace: the three answer alike."""

    code = "execution_not_found"

    def __init__(self) -> None:
        super().__init__("there is no execution of that id")


class ArtifactNotFound(NotFound):
    code = "artifact_not_found"

    def __init__(self) -> None:
        super().__init__("the execution has no artifact of that id")


class ExecutionActive(PlatformError):
    """The run is not over, or kept alive."""

    code = "execution_active"


class ExecutionFinished(PlatformError):
    code = "execution_finished"
