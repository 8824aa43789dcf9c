"""`task.run`: a container that must end."""

from __future__ import annotations

from apps.suites.domain.calls import NodeKind, node_kinds
from apps.suites.domain.keywords import ENDING, script_in

node_kinds.register("task")(
    NodeKind(
        summary="a container that must end as expected",
        hint='use task.run("name", file="…")',
        functions=("run",),
        other_names=("script",),
        keywords=(*ENDING, script_in("tasks")),
    )
)
