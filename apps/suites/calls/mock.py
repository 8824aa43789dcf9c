"""`mock.serve`, also called `service.mock`: API surfaces of the suite, answered by Partita."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apps.suites.domain.calls import Arguments, NodeKind, Rules, node_kinds
from apps.suites.domain.keywords import ANY, TIMEOUT, keyword
from apps.suites.domain.mock_keywords import surfaces

DEFAULT_TIMEOUT_MS: Final = 30_000


def _members(given: Arguments, _: Rules) -> Mapping[str, object]:
    served = {"surfaces": given["surface"]} if "surface" in given else {}
    return {"variant": "mock", "timeoutMs": given.get("timeout", DEFAULT_TIMEOUT_MS), **served}


node_kinds.register("mock")(
    NodeKind(
        summary="API surfaces of the suite, answered by Partita; healthy when they answer. "
        "`service.mock` is the same",
        hint='use mock.serve("name")',
        functions=("serve",),
        keywords=(
            *(each for each in ANY if each.name != "env"),
            TIMEOUT,
            keyword(
                "surface",
                "the surfaces to serve, an id or a list; by default the one with the id of the "
                "node, otherwise all of the suite",
                surfaces,
            ),
        ),
        in_container=False,
        members=_members,
    )
)
