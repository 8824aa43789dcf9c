"""`service.run`: a container that runs until the verdict of its run."""

from __future__ import annotations

from collections.abc import Mapping

from apps.suites.domain import readiness, values
from apps.suites.domain.calls import Arguments, Keyword, NodeKind, Rules, node_kinds
from apps.suites.domain.keywords import CONTAINER, keyword, script_in


def _members(given: Arguments, rules: Rules) -> Mapping[str, object]:
    del rules
    if "timeout" in given and "timeoutMs" in given.get("ready", {}):
        values.invalid("service.run", "timeout is short for ready.timeout; set only one of them")
    ready = readiness.completed(given.get("ready"), given.get("ports", []), given.get("timeout"))
    if ready is None:
        return {
            "idempotent": True,
            "timeoutMs": given.get("timeout", readiness.DEFAULT_TIMEOUT_MS),
        }
    return {"idempotent": True, "timeoutMs": ready["timeoutMs"], "ready": ready}


node_kinds.register("service")(
    NodeKind(
        summary="a container that keeps running until the run ends; healthy when its readiness "
        "probe passes",
        hint='use service.run("name", image="…")',
        functions=("run",),
        unavailable=("mock", "wiremock", "prism", "custom"),
        other_names=("container",),
        keywords=(
            *CONTAINER,
            script_in("services"),
            keyword("ports", '`[8080, "53/udp"]`', values.ports),
            Keyword(
                name="ready",
                meaning="one of `http`, `tcp`, `log`, `command`; with `port`, `status`, "
                "`interval`, `start_period`, `timeout`",
                read=lambda value, where, rules: readiness.read(
                    value, where, max_timeout_ms=rules["maxTimeoutMs"]
                ),
            ),
        ),
        members=_members,
    )
)
