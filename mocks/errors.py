"""What the data plane answers itself (reference: control-plane 1.1, 18.1)."""

from __future__ import annotations

from kernel.errors import NotFound, PlatformError


class NothingHere(NotFound):
    def __init__(self) -> None:
        super().__init__("there is nothing at this path")


class SuiteNotFound(NotFound):
    code = "suite_not_found"

    def __init__(self, suite_id: str) -> None:
        super().__init__(f"there is no suite {suite_id[:200]!r}")


class SpaceNotActive(NotFound):
    code = "space_not_active"

    def __init__(self, execution_id: str) -> None:
        super().__init__(
            f"the mocks of the run {execution_id[:64]!r} are not active: it is over, or no such run"
        )


class SurfaceNotFound(NotFound):
    code = "surface_not_found"

    def __init__(self, surface_id: str) -> None:
        super().__init__(f"there is no API surface {surface_id[:128]!r} with operations here")


class OperationNotFound(NotFound):
    code = "operation_not_found"


class FaultUnavailable(PlatformError):
    """A fault of a mock that this adapter or server cannot show."""

    code = "mock_fault_unavailable"


class SecretRequired(PlatformError):
    code = "mock_secret_required"

    def __init__(self) -> None:
        super().__init__("this route needs the shared secret in X-Partita-Mock-Secret")


class MethodNotAllowed(PlatformError):
    code = "method_not_allowed"

    def __init__(self, methods: bytes) -> None:
        super().__init__(f"this route has {methods.decode()}")
        self.methods = methods


class ShuttingDown(PlatformError):
    code = "shutting_down"

    def __init__(self) -> None:
        super().__init__("this server is shutting down; try again")


class PortTaken(Exception):
    """The address of a further listener cannot be listened on."""
