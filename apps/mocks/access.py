"""Who may look into mock spaces and change them (reference: control-plane 18.1).

A run's space belongs to the workspace of the run. The shared space of a suite is everybody's to
call and the administrators' to look into.
"""

from __future__ import annotations

from apps.accounts.api import Forbidden, Principal, Role
from apps.mocks.run_readers import run_readers
from apps.suites.api import find_suite_by_id
from mocks.model.spaces import SpaceName


def require_reader(principal: Principal, name: SpaceName) -> None:
    """Raise Forbidden (admin_required) or SuiteNotFound; `execution_not_found` for others' runs."""
    if name.is_shared:
        if not principal.is_admin:
            raise Forbidden("the calls and the state of a shared mock space are for administrators")
        find_suite_by_id(name.suite_id)
        return
    run_readers["executions"](principal, name.execution_id)


def require_writer(principal: Principal, name: SpaceName) -> None:
    """Raise as `require_reader`, and Forbidden (role_required) for viewers."""
    require_reader(principal, name)
    if not name.is_shared:
        principal.require(Role.RUNNER)
