"""`log.info` and its like: a line in the log of the run."""

from __future__ import annotations

from apps.suites.domain import values
from apps.suites.domain.calls import NodeKind, node_kinds
from apps.suites.domain.keywords import ANY, keyword

node_kinds.register("log")(
    NodeKind(
        summary="a line in the log, without a container",
        hint='use log.info("…")',
        functions=("info", "warn", "error", "debug"),
        keywords=(*ANY, keyword("message", "the line", values.text)),
        positional="message",
        in_container=False,
        members=lambda given, _: {"message": given.get("message", "")},
    )
)
