"""`mock.serve`, also called `service.mock`: API surfaces of the suite, answered by Partita."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apps.suites.domain.calls import Arguments, Keyword, NodeKind, Rules, node_kinds
from apps.suites.domain.keywords import ANY, TIMEOUT, keyword
from apps.suites.domain.mock_keywords import surfaces
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.values import invalid, text
from kernel.errors import known_names

DEFAULT_TIMEOUT_MS: Final = 30_000


def _members(given: Arguments, _: Rules) -> Mapping[str, object]:
    if "surface" in given and "definition" in given:
        invalid("mock.serve", "only one of definition, surface may be set")
    served = {
        member: given[word]
        for word, member in (("surface", "surfaces"), ("definition", "definition"))
        if word in given
    }
    return {"variant": "mock", "timeoutMs": given.get("timeout", DEFAULT_TIMEOUT_MS), **served}


def _definition(value: object, where: str, rules: Rules) -> str:
    """Return the path of a file or folder of api/ or mock/, named with or without that folder."""
    name = text(value, where, empty=False).removeprefix("./").rstrip("/")
    for path in (name, f"api/{name}", f"mock/{name}"):
        if path.partition("/")[0] in ("api", "mock") and any(
            file == path or file.startswith(f"{path}/") for file in rules["files"]
        ):
            return path
    known = [file for file in rules["files"] if file.startswith(("api/", "mock/"))]
    raise TopologyProblem(
        "file_not_found",
        f"{where}: the suite has no contract or mock {name}{known_names(known)}; for a surface, "
        f'write surface="{name}"',
    )


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
            Keyword(
                name="definition",
                meaning="in place of `surface`: a contract of `api/`, or a file or folder of "
                "`mock/`; the surfaces with its operations are served",
                read=_definition,
            ),
        ),
        in_container=False,
        members=_members,
    )
)
