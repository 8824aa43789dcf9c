"""`suite.run`: the steps of another suite, in place of the call (reference: control-plane 8)."""

from __future__ import annotations

from collections.abc import Mapping

from apps.suites.domain import values
from apps.suites.domain.calls import Arguments, NodeKind, Rules, node_kinds
from apps.suites.domain.keywords import ANY, keyword
from apps.suites.domain.problems import TopologyProblem


def _members(given: Arguments, _: Rules) -> Mapping[str, object]:
    if "ref" not in given:
        raise TopologyProblem("missing_argument", "suite.run: ref is required")
    return {"ref": given["ref"]}


node_kinds.register("suite")(
    NodeKind(
        summary="the steps of another suite, which dependencies.yaml names",
        hint='use suite.run(ref="…")',
        functions=("run",),
        keywords=(
            *(each for each in ANY if each.name in ("name", "after")),
            keyword(
                "ref",
                "the alias of the suite in dependencies.yaml",
                lambda value, where: values.text(value, where, empty=False),
            ),
        ),
        in_container=False,
        members=_members,
    )
)
