"""`sync`: what an orchestrator tells over HTTP; the other verbs work beside its store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from partita_client.command.halves import StoreCommand
from partita_client.command.output import (
    note,
    printable,
    say,
    show_document,
    show_list,
    show_table,
)
from partita_client.command.parser import (
    CommandNoun,
    CommandSession,
    CommandVerb,
    limit,
    seconds,
)
from partita_client.command.sync_views import (
    DRIFT_COLUMNS,
    INCOMPLETE,
    NONE,
    TARGET_COLUMNS,
    TASK_COLUMNS,
    count_text,
    status_lines,
    task_lines,
)
from partita_client.errors import BadConfiguration
from partita_client.event_stream import AWAY_S
from partita_client.exit_codes import ExitCode
from partita_client.patience import FirstContact, wait_for_answer
from partita_client.sync_server import SyncClient, choose_sync_server, is_sync_server_named

_POLL_S: Final = 1.0
PATIENCE_S: Final = 2.0  # of a completion
STATUSES: Final = (
    *("in_sync", "drifted", "healing", "flapping", "syncing", "inconsistent", "unknown"),
)
STATES: Final = ("pending", "running", "retrying", "succeeded", "failed", "dead")
KINDS: Final = ("webhook", "heal", "reconcile", "schema_refresh", "manual")
EPISODES: Final = ("open", "healing", "healed", "resolved", "unhealed", "superseded")


@contextmanager
def open_sync_client(options: Any, *, timeout_s: float = 30.0) -> Iterator[SyncClient]:
    """Yield a client of the orchestrator that options or the environment name."""
    choice = choose_sync_server(getattr(options, "server", ""), getattr(options, "ca_file", ""))
    if choice.is_key_open:
        note(f"warning: {choice.url} is not https: others on the way can read the key")
    with SyncClient(
        choice.url, key=choice.key, ca_file=choice.ca_file, timeout_s=timeout_s
    ) as client:
        yield client


@contextmanager
def _client_of(session: CommandSession) -> Iterator[SyncClient]:
    with open_sync_client(session.options) as client:
        session.asked_url = client.url
        yield client


def _add_filters(parser: Any, *names: str) -> None:
    texts = {
        "rule": "only targets of this rule",
        "repo": "owner/name",
        "ref": "such as refs/heads/main",
        "env": "only of this environment",
        "datasource": "only of this datasource",
    }
    for name in names:
        parser.add_argument(f"--{name}", default="", help=texts[name])


def _add_choice(parser: Any, name: str, words: Sequence[str]) -> None:
    parser.add_argument(
        f"--{name}", default="", type=str.lower, choices=words, help=", ".join(words),
        metavar=name.upper(),
    )  # fmt: skip


def _filters(options: Any, *names: str) -> dict[str, str]:
    return {name: getattr(options, name) for name in names if getattr(options, name)}


def _add_status(parser: Any) -> None:
    _add_filters(parser, "rule", "repo", "env", "datasource")
    _add_choice(parser, "status", STATUSES)
    parser.add_argument("--behind", action="store_true", help="only what is behind")


def show_status(session: CommandSession) -> int:
    """Print targets and, for people, why some are behind and what to do."""
    wanted = _filters(session.options, "rule", "repo", "env", "datasource", "status")
    with _client_of(session) as client:
        targets = client.targets(limit=0, **wanted)
        # a ref without a target has neither environment nor status
        has_more = not wanted.keys() & {"env", "datasource", "status"}
        unapplied = client.unapplied_refs(**wanted) if has_more else []
        is_incomplete = client.is_incomplete
    behind = [target for target in targets if "behind" in target]
    shown = behind if session.options.behind else targets
    if session.form in ("json", "yaml"):
        more = {"incomplete": True} if is_incomplete else {}
        show_document({"targets": shown, "unapplied": unapplied, **more}, session.form)
        return ExitCode.OK
    show_list("targets", shown, TARGET_COLUMNS, session.form, key="unit_id")
    if session.is_for_people:
        for line in status_lines(shown, unapplied):
            say(line)
        note(count_text(len(targets), len(behind), len(unapplied)))
        if is_incomplete:
            note(INCOMPLETE)
    return ExitCode.OK


def _add_history(parser: Any) -> None:
    _add_filters(parser, "rule", "repo", "ref", "env")
    parser.add_argument("--commit", default="", help="of the event, at least 7 digits")
    _add_choice(parser, "state", STATES)
    _add_choice(parser, "kind", KINDS)
    parser.add_argument("--limit", type=limit, default=50, help="1 to 1000, default 50")


def show_history(session: CommandSession) -> int:
    options = session.options
    wanted = _filters(options, "rule", "repo", "ref", "env", "commit", "kind")
    if options.state:
        wanted["state"] = options.state.upper()
    with _client_of(session) as client:
        found = client.tasks(limit=options.limit, **wanted)
    show_list("tasks", found, TASK_COLUMNS, session.form, key="task_id")
    if not found and session.is_for_people:
        note(
            "no such task: has the push reached the gateway? (deliveries of the platform's webhook)"
        )
    return ExitCode.OK


def _add_drift(parser: Any) -> None:
    _add_filters(parser, "rule", "repo", "env", "datasource")
    _add_choice(parser, "state", EPISODES)
    parser.add_argument("--limit", type=limit, default=200, help="1 to 1000, default 200")


def show_drift(session: CommandSession) -> int:
    wanted = _filters(session.options, "rule", "repo", "env", "datasource", "state")
    with _client_of(session) as client:
        found = client.drift(limit=session.options.limit, **wanted)
    show_list("drift", found, DRIFT_COLUMNS, session.form, key="drift_id")
    return ExitCode.OK


def _add_task(parser: Any) -> None:
    parser.add_argument("task", metavar="TASK", help="its id, as history and trigger print it")


def show_task(session: CommandSession) -> int:
    with _client_of(session) as client:
        task = client.task(session.options.task)
    _print_task(task, session)
    return ExitCode.OK


def _print_task(task: Any, session: CommandSession) -> None:
    if not session.is_for_people:
        show_document(task, session.form, name=task["task_id"])
        return
    for line in task_lines(task):
        say(printable(line))
    if targets := task.get("result", {}).get("targets"):
        rows = [
            (
                each.get("repo", NONE),
                each.get("env", NONE),
                each.get("destination", NONE),
                each["error"]["code"] if each.get("error") else each["outcome"],
                *(str(each.get(name, 0)) for name in ("written", "pruned", "unchanged")),
            )
            for each in targets
        ]
        heads = ("REPOSITORY", "ENV", "DESTINATION", "OUTCOME", "WRITTEN", "PRUNED", "UNCHANGED")
        show_table(heads, rows)


def _add_watch(parser: Any) -> None:
    _add_task(parser)
    parser.add_argument(
        "--timeout", type=seconds, default="10m", help="such as 90s; 10m unless given"
    )


def watch_task(session: CommandSession) -> int:
    """Wait for the end of a task, telling each state on stderr; return 1 for a failed one."""
    task_id, known = session.options.task, ""
    deadline = time.monotonic() + session.options.timeout
    contact = FirstContact()
    try:
        with _client_of(session) as client:
            while True:
                task = wait_for_answer(
                    lambda: client.task(task_id),
                    until=min(deadline, time.monotonic() + AWAY_S),
                    on_away=lambda why: note(f"{printable(why)}; waiting for the orchestrator"),
                    contact=contact,
                )
                if task.get("finished_at"):
                    break
                if known != (known := _progress(task)):
                    note(printable(known))
                if time.monotonic() > deadline:
                    note(f"the time is over, and the task goes on: partita sync watch {task_id}")
                    return ExitCode.TIMEOUT
                time.sleep(_POLL_S)
    except KeyboardInterrupt:
        note(f"the task goes on: partita sync watch {task_id}")
        return ExitCode.STILL_RUNNING
    _print_task(task, session)
    return ExitCode.OK if task["state"] == "SUCCEEDED" else ExitCode.ERROR


def _progress(task: Any) -> str:
    stage = task.get("progress", {}).get("stage", "")
    code = task.get("error", {}).get("code", "")
    return " ".join(filter(None, (task["state"], stage, code)))


def add_sync_server(parser: Any) -> None:
    """Add the options that say which orchestrator is meant."""
    server = parser.add_argument_group("server")
    server.add_argument("--server", default="", metavar="URL", help="else PARTITA_SYNC_URL")
    server.add_argument(
        "--ca-file", default="", metavar="FILE", help="a private authority; else PARTITA_CA_FILE"
    )


def _tasks(options: Any) -> list[str]:
    with open_sync_client(options, timeout_s=PATIENCE_S) as client:
        return [task["task_id"] for task in client.tasks(limit=50)]


def _column(name: str) -> Callable[[Any], list[str]]:
    def values(options: Any) -> list[str]:
        """Return what targets have in a column."""
        with open_sync_client(options, timeout_s=PATIENCE_S) as client:
            return sorted({each[name] for each in client.targets(limit=200) if each.get(name)})

    return values


def choose_half(
    noun: CommandNoun, words: Sequence[str], *, has_store: bool
) -> StoreCommand | CommandVerb | None:
    """Return a verb of the client where an orchestrator is named, else a command for its store.

    A verb that only the store has is not run on the store here while another place is meant: raise
    BadConfiguration.
    """
    name = words[0] if words else ""
    verb = noun.find(name)
    if name not in noun.names:
        return None
    is_help = bool({"-h", "--help"} & {*words[1:]})
    if name in noun.file_verbs or (verb is None and is_help):
        return StoreCommand(words=[noun.name, *words])
    if not is_sync_server_named(_option_of(words[1:], "--server")):
        if verb is None or has_store:
            return StoreCommand(words=[noun.name, *words])
    elif verb is None:
        url = choose_sync_server(_option_of(words[1:], "--server")).url
        raise BadConfiguration(
            f"`partita sync {name}` works where the orchestrator runs, and {url} is meant",
            advice=f"type it where the orchestrator runs: partita admin sync {name} …",
        )
    return verb


def _option_of(words: Sequence[str], name: str) -> str:
    """Return the value of an option as typed, empty if it is not there."""
    for number, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name:
            return "".join(words[number + 1 : number + 2])
    return ""


_EXIT_CODES: Final = (
    "exit codes: 0 success, 1 error, or the watched task failed, 2 usage, 3 not found,\n"
    "  4 not allowed, 6 unavailable, 13 time out, 14 still running, 78 wrong configuration"
)
NOUN: Final = CommandNoun(
    name="sync",
    exit_codes=_EXIT_CODES,
    choose_half=choose_half,
    text="See what the configuration sync holds, and why a push has not arrived.",
    verbs=(
        CommandVerb(
            name="status",
            text="list targets: what they hold, which are behind, since when and why",
            run=show_status,
            add_arguments=_add_status,
        ),
        CommandVerb(
            name="history",
            text="list tasks and their results, newest first",
            run=show_history,
            add_arguments=_add_history,
        ),
        CommandVerb(
            name="show",
            text="show one task: what was asked, what each target got, what went wrong",
            run=show_task,
            add_arguments=_add_task,
        ),
        CommandVerb(
            name="watch",
            text="wait for the end of a task, and show it",
            run=watch_task,
            add_arguments=_add_watch,
        ),
        CommandVerb(
            name="drift",
            text="list manual changes and how they were healed",
            run=show_drift,
            add_arguments=_add_drift,
        ),
    ),
    store_verbs={
        "check": "check config.cue",
        "plan": "show what a sync would change (where the orchestrator runs)",
        "trigger": "sync a rule now (where the orchestrator runs)",
        "blame": "show which commit wrote a key (where the orchestrator runs)",
        "orphans": "list, release or purge targets without a rule (where the orchestrator runs)",
        "approve-prune": "let a task delete what a guard kept (where the orchestrator runs)",
    },
    file_verbs=("check",),
    store_place="Beside the store of the orchestrator",
    add_server=add_sync_server,
    live_values={
        "task": _tasks,
        "rule": _column("rule_id"),
        "repo": _column("repo"),
        "env": _column("env"),
        "datasource": _column("datasource"),
    },
    examples="""\
  partita sync status                      what each target holds, and what is behind and why
  partita sync status --behind --rule shop
  partita sync history --commit 9f1c22ab   what became of a push
  partita sync history --state failed -o wide
  partita sync show 0198f0c2-7d1e-7c41-9a57-2f5d0c1e8b11
  partita sync drift --state open
  partita sync check config.cue
with PARTITA_SYNC_URL or --server, over HTTP; otherwise on the store that the environment names""",
)
