"""`worker`: the runners and workers of a server, and which of them take new runs."""

from __future__ import annotations

import sys
from typing import Any, Final

from partita_client.command.output import (
    ListColumn,
    age_of,
    align_columns,
    note,
    printable,
    say,
    show_document,
    show_list,
)
from partita_client.command.parser import CommandNoun, CommandSession, CommandVerb
from partita_client.command.run_launches import confirm
from partita_client.errors import ApiProblem, BadConfiguration
from partita_client.exit_codes import ExitCode
from partita_client.installation import ServerInstallation

_DOCUMENT: Final = ("text", "json", "yaml")
_REPORT: Final = ("text", "table", "wide", "json", "yaml")
_NONE: Final = "–"


def worker_state(agent: Any) -> str:
    """Return `online`, `draining` or `offline`."""
    if agent["status"] == "online" and agent.get("draining"):
        return "draining"
    return str(agent["status"])


def _if_online(agent: Any, text: str) -> str:
    return text if agent["status"] == "online" else _NONE


def _runtime(agent: Any) -> str:
    return "answers" if agent.get("runtimeAvailable", True) else "away"


def _labels(agent: Any) -> str:
    pairs = sorted(agent["labels"].items())
    return ", ".join(f"{name}={value}" if value else name for name, value in pairs)


WORKER_COLUMNS: Final = (
    ListColumn(heading="ID", cell=lambda each: each["agentId"]),
    ListColumn(heading="KIND", cell=lambda each: each["kind"]),
    ListColumn(heading="STATE", cell=worker_state, is_status=True),
    ListColumn(heading="RUNTIME", cell=lambda each: _if_online(each, _runtime(each))),
    ListColumn(heading="JOBS", cell=lambda each: _if_online(each, str(each["runningJobs"]))),
    ListColumn(
        heading="FAILING LOOPS",
        cell=lambda each: _if_online(each, ", ".join(each.get("failingLoops", ())) or "none"),
    ),
    ListColumn(heading="BACKENDS", cell=lambda each: ", ".join(each["backends"])),
    ListColumn(heading="HEARD OF", cell=lambda each: f"{age_of(each['lastHeartbeatAt'])} ago"),
    ListColumn(heading="LAST HEARD OF", cell=lambda each: each["lastHeartbeatAt"], is_wide=True),
    ListColumn(heading="NAME", cell=lambda each: each["name"], is_wide=True),
    ListColumn(heading="VERSION", cell=lambda each: each.get("version", _NONE), is_wide=True),
    ListColumn(heading="LABELS", cell=_labels, is_wide=True),
    ListColumn(heading="ADDRESS", cell=lambda each: each.get("hostUrl", _NONE), is_wide=True),
)


def _add_status(parser: Any) -> None:
    parser.add_argument("--state", choices=("online", "offline"), default="", help="only those")


def list_workers(session: CommandSession) -> int:
    found = ServerInstallation(session.client).agents(status=session.options.state)
    show_list("agents", found, WORKER_COLUMNS, session.form, key="agentId")
    return ExitCode.OK


def show_status(session: CommandSession) -> int:
    """Print how many workers there are and what there is to do, and then who they are."""
    installation = ServerInstallation(session.client)
    agents, counts = installation.agents(), installation.run_counts()
    if not session.is_for_people:
        show_document({"summary": counts, "agents": agents}, session.form)
        return ExitCode.OK
    online = [each for each in agents if each["status"] == "online"]
    draining = sum(worker_state(each) == "draining" for each in online)
    drained = f", {draining} of them draining" if draining else ""
    say(f"{len(online)} of {len(agents)} runners and workers online{drained}")
    say(
        f"runs: {counts['queuedExecutions']} queued, {counts['bootingExecutions']} booting; "
        f"steps: {counts['runningSteps']} running, {counts['queuedSteps']} queued"
    )
    say("")
    show_list("agents", agents, WORKER_COLUMNS, session.form, key="agentId")
    return ExitCode.OK


def _add_worker(parser: Any) -> None:
    parser.add_argument("worker", metavar="WORKER", help="the id of a runner or worker")


def show_worker(session: CommandSession) -> int:
    _show_agent(session, _find_agent(session))
    return ExitCode.OK


def _find_agent(session: CommandSession) -> Any:
    wanted = session.options.worker
    known = ServerInstallation(session.client).agents()
    for agent in known:
        if agent["agentId"] == wanted:
            return agent
    names = ", ".join(str(each["agentId"]) for each in known) or "none"
    raise ApiProblem(
        status=404,
        code="agent_not_found",
        detail=f"there is no runner or worker {wanted!r}; known: {names}",
        advice="partita worker list",
    )


def _show_agent(session: CommandSession, agent: Any) -> None:
    if not session.is_for_people:
        show_document(agent, session.form)
        return
    heads = [f"{column.heading.lower()}:" for column in WORKER_COLUMNS]
    cells = [column.cell(agent) for column in WORKER_COLUMNS]
    rows = [(head, cell) for head, cell in zip(heads, cells, strict=True) if cell]
    rows += [
        ("registered:", agent["registeredAt"]),
        ("capabilities:", ", ".join(agent["capabilities"]) or _NONE),
    ]
    for line in align_columns(rows):
        say(line)


def drain_worker(session: CommandSession) -> int:
    agent = ServerInstallation(session.client).drain_agent(session.options.worker)
    text = "takes no new runs and finishes its own"
    _show_change(session, agent, f"{text}; next: partita worker resume {agent['agentId']}")
    return ExitCode.OK


def resume_worker(session: CommandSession) -> int:
    agent = ServerInstallation(session.client).resume_agent(session.options.worker)
    _show_change(session, agent, "takes new runs")
    return ExitCode.OK


def _show_change(session: CommandSession, agent: Any, text: str) -> None:
    if session.is_for_people:
        say(printable(f"{agent['agentId']} {text}"))
    else:
        show_document(agent, session.form)


def _add_removal(parser: Any) -> None:
    _add_worker(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def remove_worker(session: CommandSession) -> int:
    """Remove a runner or worker by its id, after a question unless `--yes` is given."""
    agent = _find_agent(session)
    jobs, name = agent["runningJobs"], agent["agentId"]
    if not session.options.yes:
        if not sys.stdin.isatty():
            raise BadConfiguration(f"nobody can be asked whether {name} goes", advice="add --yes")
        lost = f", and {jobs} running jobs are lost" if jobs else ""
        if not confirm(printable(f"remove {name}? Its credential ends{lost}")):
            note("nothing was removed")
            return ExitCode.ERROR
    ServerInstallation(session.client).remove_agent(name)
    if session.is_for_people:
        say(printable(f"{name} is removed"))
    else:
        show_document({"agentId": name, "status": "removed"}, session.form)
    return ExitCode.OK


NOUN: Final = CommandNoun(
    name="worker",
    text="List runners and workers, and say which of them take new runs.",
    verbs=(
        CommandVerb(
            name="list", text="list runners and workers", run=list_workers,
            add_arguments=_add_status,
        ),
        CommandVerb(
            name="status", text="say how many are online and what there is to do, and list them",
            run=show_status, formats=_REPORT,
        ),
        CommandVerb(
            name="show", text="show one", run=show_worker, add_arguments=_add_worker,
            formats=_DOCUMENT,
        ),
        CommandVerb(
            name="drain", text="give one no new runs; it finishes those that it has",
            run=drain_worker, add_arguments=_add_worker, formats=_DOCUMENT,
        ),
        CommandVerb(
            name="resume", text="let one take new runs again",
            run=resume_worker, add_arguments=_add_worker, formats=_DOCUMENT,
        ),
        CommandVerb(
            name="remove", text="remove one: its credential ends, what it runs is lost",
            run=remove_worker, add_arguments=_add_removal, formats=_DOCUMENT,
        ),
    ),
    examples="""\
  partita worker status                 who is online, and what waits
  partita worker list --state offline -o name
  partita worker show edge-1
  partita worker drain edge-1           before its machine is restarted; then: resume
  partita worker remove edge-1 --yes    it must register again""",
)  # fmt: skip
