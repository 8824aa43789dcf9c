"""Who knows the runs that own mock spaces: an app above this one, which declares it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kernel.registry import Registry

if TYPE_CHECKING:  # imported before the apps are loaded
    from apps.accounts.api import Principal


class RunReader(Protocol):
    """Of the app that knows runs: declared as `executions`."""

    def __call__(self, principal: Principal, run_id: str) -> object:
        """Raise `execution_not_found` unless the run exists and the principal may see it."""
        ...


run_readers: Final[Registry[RunReader]] = Registry("reader of runs")
