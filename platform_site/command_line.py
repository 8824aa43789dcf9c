"""What `partita` says without Django: its version, its commands, and what each is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kernel.version import VERSION

PROGRAM: Final = "partita"
VERSION_WORDS: Final = ("version", "--version", "-V")
HELP_WORDS: Final = ("help", "--help", "-h")

# heading → command → what it does; a test holds the names against the commands that exist
COMMANDS: Final[Mapping[str, Mapping[str, str]]] = {
    "Start": {
        "init": "write a first suite into your own repository",
        "up": "start Partita on this machine and launch the suite hello",
    },
    "Suites": {
        "suite": "list, check, write, lock and share suites",
        "profile": "list, show and change the profiles of a suite",
        "mock": "serve a contract as an API; import, record and lint mocks",
    },
    "Administration": {
        "settings": "show, change and apply the settings; synchronize registries",
        "check_cluster": "say what a Kubernetes cluster lacks for running steps",
        "environment": "show what runs hold or left on container runtimes, and remove it",
        "store": "back up, restore and copy the store",
        "artifacts": "show where the files of runs are kept, and move them",
        "keys": "show which keys encrypt what, and encrypt anew",
    },
    "Configuration sync": {
        "sync": "check and plan syncs, list targets, tasks and manual changes; trigger, approve",
    },
    "Processes of an installation": {
        "run_runner": "run steps for the backends of type local",
        "run_worker": "run steps on a machine of its own",
        "run_gateway": "receive webhooks",
        "run_orchestrator": "write the configuration that was pushed",
        "run_watcher": "find and heal manual changes",
    },
}
# a former name → the command of now
RENAMED: Final[Mapping[str, str]] = {
    "sync_bundle_check": "sync check",
    "sync_plan": "sync plan",
    "sync_trigger": "sync trigger",
    "sync_status": "sync status",
    "sync_history": "sync history",
    "sync_drift": "sync drift",
    "sync_blame": "sync blame",
    "sync_orphans": "sync orphans",
    "sync_approve_prune": "sync approve-prune",
}
# a command that only a server answers → its verbs of that kind, empty where all are
ASKED: Final[Mapping[str, Sequence[str]]] = {
    "run": (),
    "worker": (),
    "mock": ("state", "journal", "reset", "verify", "explain"),
}


def answer(arguments: Sequence[str]) -> str | None:
    """Return the answer to `version`, `help` or no word at all; None for anything else.

    `help COMMAND` and `help --all`, which lists Django's commands too, are Django's to answer.
    """
    if not arguments or (arguments[0] in HELP_WORDS and len(arguments) == 1):
        return overview()
    if arguments[0] in VERSION_WORDS and len(arguments) == 1:
        return f"{PROGRAM} {VERSION}"
    return None


def refusal(arguments: Sequence[str]) -> str:
    """Return what to type instead of a command that is not here; empty for any other."""
    words = [each for each in arguments if each not in HELP_WORDS]
    name, verb = ("".join(words[:1]), "".join(words[1:2]))
    if new_name := RENAMED.get(name):
        return f"error: there is no command {name!r}\nnext: {PROGRAM} {new_name}\n"
    if name not in ASKED or (ASKED[name] and verb not in ASKED[name]):
        return ""
    typed = " ".join(words[:2])
    return (
        f"error: `{typed}` asks a server, which knows who you are\n"
        f"next: {PROGRAM} {typed} (`{PROGRAM} up` starts a server here)\n"
    )


def overview() -> str:
    width = max(len(name) for group in COMMANDS.values() for name in group)
    lines = [
        f"usage: {PROGRAM} COMMAND …",
        "",
        "Launch packaged test environments, and keep configuration equal to Git.",
    ]
    for heading, group in COMMANDS.items():
        lines += ["", f"{heading}:"]
        lines += [f"  {name:<{width}}  {text}" for name, text in group.items()]
    return "\n".join(
        [
            *lines,
            "",
            f"`{PROGRAM} COMMAND --help` shows the verbs and options of a command, with examples.",
            f"`{PROGRAM} help --all` also lists Django's commands: migrate, createsuperuser, …",
        ]
    )
