"""`partita environment list|show|reap|reap-all`: what runs hold or left on container runtimes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from apps.accounts import api as accounts
from apps.environments import api
from apps.environments.services import snapshots
from apps.operations.api import (
    LIST_OUTPUTS,
    ExitCode,
    VerbCommand,
    confirm,
    print_json,
    print_list,
    print_table,
    printable,
)
from kernel.errors import InvalidInput
from partita_client.command.resources import ENVIRONMENT_COLUMNS

if TYPE_CHECKING:
    from apps.environments.api import CleanupResult

Options = Mapping[str, Any]  # of a verb


class Command(VerbCommand):
    help = "Show what runs hold or left on container runtimes, and remove it."
    examples = """\
  partita environment list
  partita environment list --status Zombie,Degraded
  partita environment show run-0123456789ab
  partita environment reap run-0123456789ab --dry-run   what would go
  partita environment reap run-0123456789ab --yes
  partita environment reap-all --zombies                only what has no supervisor any more
  partita environment reap-all -o json --yes
a live run is canceled before its environment is removed; an `up` or a runner does the work"""

    def add_arguments(self, parser: Any) -> None:
        verbs = self.add_verbs(parser)
        text = "list environments"
        listing = self.add_verb(verbs, "list", list_environments, text, outputs=LIST_OUTPUTS)
        listing.add_argument("--status", default="", help="comma list, such as Zombie,Degraded")
        listing.add_argument("--search", default="", metavar="TEXT", help="text in any name")
        show = self.add_verb(verbs, "show", show_environment, "show one: what it has, and why")
        show.add_argument("sandbox", metavar="ENVIRONMENT", help="id of the run, or of the orphan")
        reap = self.add_verb(verbs, "reap", reap_one, "remove one environment")
        reap.add_argument("sandbox", metavar="ENVIRONMENT", help="id of the run, or of the orphan")
        reap_all = self.add_verb(verbs, "reap-all", reap_every, "remove all of them, or zombies")
        reap_all.add_argument(
            "--zombies", action="store_true", help="only what has no supervisor any more"
        )
        for verb in (reap, reap_all):
            verb.add_argument(
                "--dry-run", action="store_true", help="say what would go, remove nothing"
            )
            verb.add_argument("-y", "--yes", action="store_true", help="do not ask")


def list_environments(options: Options) -> int:
    found = api.snapshot(accounts.operator(), status=options["status"], q=options["search"])
    if options["output"] == "json":
        print_json(found)
        return ExitCode.OK
    rows, key = found["sandboxes"], "sandboxId"
    print_list("sandboxes", rows, ENVIRONMENT_COLUMNS, options["output"], key=key)
    for warning in found["warnings"]:
        sys.stderr.write(f"warning: {printable(warning)}\n")
    return ExitCode.OK if found["containerRuntimeAvailable"] else ExitCode.UNAVAILABLE


def show_environment(options: Options) -> int:
    found = snapshots.environment(accounts.operator(), options["sandbox"])
    if options["output"] == "json":
        print_json(found)
        return ExitCode.OK
    _print(f"{found['sandboxId']}  {found['status']}  {found['suite']} of {found['owner']}")
    if reason := found.get("zombieReason"):
        _print(f"a zombie: {reason}")
    supervisor = found.get("orchestratorId", "no supervisor")
    _print(f"supervisor: {supervisor} ({found['orchestratorState']})")
    rows = [
        *(("container", each["name"], each["status"]) for each in found["containers"]),
        *(("network", each["name"], each["driver"]) for each in found["networks"]),
        *(("volume", each["name"], each["mountpoint"]) for each in found["volumes"]),
    ]
    print_table(("KIND", "NAME", "IS"), rows)
    for warning in found["warnings"]:
        _print(f"warning: {warning}")
    return ExitCode.OK


def reap_one(options: Options) -> int:
    principal, sandbox_id = accounts.operator(), options["sandbox"]
    plan = api.reap(principal, sandbox_id, dry_run=True)
    if options["dry_run"] or not _may_go_on(plan, options):
        return _finish(plan, options)
    return _finish(api.reap(principal, sandbox_id), options)


def reap_every(options: Options) -> int:
    principal, zombies = accounts.operator(), options["zombies"]
    plan = api.reap_all(principal, dry_run=True, only_zombies=zombies)
    if options["dry_run"] or not _may_go_on(plan, options):
        return _finish(plan, options)
    return _finish(api.reap_all(principal, only_zombies=zombies), options)


def _may_go_on(plan: CleanupResult, options: Options) -> bool:
    """Show the plan and ask on a terminal; raise InvalidInput where nobody can answer."""
    if options["yes"]:
        return True
    if not sys.stdin.isatty():
        raise InvalidInput("this removes environments: add --yes, or --dry-run to see what goes")
    sys.stderr.write(f"would remove {_words(plan)}\n")
    for warning in plan["warnings"]:
        sys.stderr.write(f"  {printable(warning)}\n")
    return confirm("remove it?")


def _finish(result: CleanupResult, options: Options) -> int:
    if options["output"] == "json":
        print_json(result)
    else:
        verb = "would remove" if result["dryRun"] else "removed"
        _print(f"{verb} {_words(result)}")
        for warning in result["warnings"]:
            sys.stderr.write(f"warning: {printable(warning)}\n")
    is_whole = result["dryRun"] or not result["warnings"]
    return ExitCode.OK if is_whole else ExitCode.ERROR


def _words(result: CleanupResult) -> str:
    return (
        f"{result['removedContainers']} containers, {result['removedNetworks']} networks, "
        f"{result['removedVolumes']} volumes"
    )


def _print(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")
