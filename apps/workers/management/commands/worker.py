"""`partita worker status`: the registered runners and workers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.agents import api as agents
from apps.operations.api import CommandOptions, ExitCode, VerbCommand, print_json, print_table
from kernel import clock
from kernel.durations import format_duration


class Command(VerbCommand):
    help = "Show the supervisors: runners of this installation and remote workers."
    examples = """\
  partita worker status
  partita worker status -o json"""

    def add_arguments(self, parser: Any) -> None:
        verbs = self.add_verbs(parser)
        self.add_verb(verbs, "status", show_status, "list workers and their state")


def show_status(options: CommandOptions) -> int:
    now, known = clock.now(), agents.list_agents()
    if options["output"] == "json":
        print_json({"agents": [agent.as_wire(now) for agent in known]})
        return ExitCode.OK
    columns = (
        "ID",
        "KIND",
        "STATE",
        "RUNTIME",
        "JOBS",
        "FAILING LOOPS",
        "BACKENDS",
        "LAST HEARD OF",
    )
    print_table(columns, [_row(agent, now) for agent in known])
    return ExitCode.OK


def _row(agent: agents.Agent, now: datetime) -> tuple[str, ...]:
    """Return the cells of an agent; for an offline one, most are unknown."""
    silent = now - agent.last_heartbeat_at
    if agent.is_online(now):
        facts = (
            "draining" if agent.draining else "online",
            "answers" if agent.runtime_available else "away",
            str(agent.running_jobs),
            ", ".join(agent.failing_loops) or "none",
        )
    else:
        facts = (f"offline for {format_duration(int(silent.total_seconds()))}", "–", "–", "–")
    heard = clock.rfc3339(agent.last_heartbeat_at)
    return (agent.agent_id, agent.kind, *facts, ", ".join(agent.backends), heard)
