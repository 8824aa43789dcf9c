"""`suite`, `profile`, `environment` and `catalog`: what a server offers and what runs left."""

from __future__ import annotations

import sys
from typing import Any, Final

from partita_client.command.output import (
    ListColumn,
    age_of,
    bytes_text,
    note,
    printable,
    say,
    show_document,
    show_list,
    show_table,
)
from partita_client.command.parser import CommandNoun, CommandSession, CommandVerb, limit
from partita_client.errors import ApiProblem
from partita_client.exit_codes import ExitCode

_NONE: Final = "–"


def _suite_state(suite: Any) -> str:
    if "topologyError" in suite:
        return str(suite["topologyError"]["code"])
    return "ok" if suite.get("state") != "evaluating" else "evaluating"


SUITE_COLUMNS: Final = (
    ListColumn(heading="ID", cell=lambda suite: suite["id"]),
    ListColumn(heading="TITLE", cell=lambda suite: suite["title"]),
    ListColumn(heading="STEPS", cell=lambda suite: str(suite.get("stepCount", _NONE))),
    ListColumn(
        heading="PROFILES",
        cell=lambda suite: ", ".join(each["fileName"] for each in suite["profiles"]),
    ),
    ListColumn(heading="STATE", cell=_suite_state),
    ListColumn(heading="OWNER", cell=lambda suite: suite["owner"], is_wide=True),
    ListColumn(heading="VERSION", cell=lambda suite: suite["version"], is_wide=True),
    ListColumn(heading="REPOSITORY", cell=lambda suite: suite["repository"], is_wide=True),
)


def _add_suites(parser: Any) -> None:
    parser.add_argument("--search", default="", metavar="TEXT", help="text in title or id")


def list_suites(session: CommandSession) -> int:
    found = session.client.suites(query=session.options.search)
    show_list("suites", found, SUITE_COLUMNS, session.form, key="id")
    return ExitCode.OK


def _add_suite(parser: Any) -> None:
    parser.add_argument("suite", metavar="SUITE", help="the suite's id, its folder name")


def show_suite(session: CommandSession) -> int:
    suite = session.client.suite(session.options.suite)
    if not session.is_for_people:
        show_document(suite, session.form, name=suite["id"])
        return ExitCode.OK
    return print_suite(suite)


def print_suite(suite: Any) -> ExitCode:
    """Print the topology and the profiles of a suite, or why it has none, for people."""
    say(f"{printable(suite['title'])}  {printable(suite['description'])}")
    if error := suite.get("topologyError"):
        place = ":".join(str(error[key]) for key in ("file", "line", "column") if error.get(key))
        say(f"✗ {printable(f'{place}: ' if place else '')}{printable(error['message'])}")
        return ExitCode.ERROR
    nodes = suite.get("topology", [])
    rows = [
        (str(node["level"]), node["id"], node["kind"], _begins_after(node))
        for node in sorted(nodes, key=lambda node: (node["level"], node["id"]))
    ]
    show_table(("LEVEL", "STEP", "KIND", "AFTER"), rows)
    for profile in suite["profiles"]:
        mark = " (default)" if profile["default"] else ""
        text = printable(profile["description"])
        say(f"profile {printable(profile['fileName'])}{mark}  {text}".rstrip())
    say(printable(f"launch it: partita run launch {suite['id']} --watch"))
    return ExitCode.OK


def _begins_after(node: Any) -> str:
    failed = node.get("onFailure", ())
    return ", ".join([*node["after"], *(f"{each} (failed)" for each in failed)]) or _NONE


def _profile_state(profile: Any) -> str:
    if "problem" in profile:
        return "invalid"
    if profile["default"]:
        return "default"
    return "launchable" if profile["launchable"] else "base"


PROFILE_COLUMNS: Final = (
    ListColumn(heading="FILE", cell=lambda each: each["fileName"]),
    ListColumn(heading="NAME", cell=lambda each: each["name"]),
    ListColumn(heading="SCOPE", cell=lambda each: each["scope"]),
    ListColumn(heading="EXTENDS", cell=lambda each: each.get("extendsId", _NONE)),
    ListColumn(heading="STATE", cell=_profile_state),
    ListColumn(heading="SOURCE", cell=lambda each: each["source"]),
    ListColumn(heading="ID", cell=lambda each: each["id"], is_wide=True),
    ListColumn(heading="CHANGED", cell=lambda each: age_of(each.get("updatedAt")), is_wide=True),
)
COUNT_COLUMNS: Final = (
    ListColumn(heading="SUITE", cell=lambda each: each["id"]),
    ListColumn(heading="PROFILES", cell=lambda each: str(each["profileCount"])),
    ListColumn(heading="LAUNCHABLE", cell=lambda each: str(each["launchableCount"])),
    ListColumn(heading="DEFAULT", cell=lambda each: each.get("defaultProfileFileName") or _NONE),
)


def _add_optional_suite(parser: Any) -> None:
    parser.add_argument("suite", nargs="?", default="", metavar="SUITE", help="the suite's id")


def list_profiles(session: CommandSession) -> int:
    suite = session.options.suite
    if not suite:
        counts = session.client.profile_counts()
        show_list("suites", counts, COUNT_COLUMNS, session.form, key="id")
        return ExitCode.OK
    document = session.client.profiles(suite)
    if session.form in ("json", "yaml"):
        show_document(document, session.form)
    else:
        key = "fileName"
        show_list("profiles", document["profiles"], PROFILE_COLUMNS, session.form, key=key)
    return ExitCode.OK


def _add_profile(parser: Any) -> None:
    _add_suite(parser)
    parser.add_argument("profile", metavar="PROFILE", help="file name or id")


def show_profile(session: CommandSession) -> int:
    """Print the YAML of a profile as it is stored."""
    options = session.options
    document = session.client.profiles(options.suite)
    known = document["profiles"]
    for each in known:
        if options.profile in (each["id"], each["fileName"]):
            if session.is_for_people:
                say(each["yaml"].rstrip("\n"))
            else:
                show_document({**each, "etag": document["etag"]}, session.form)
            return ExitCode.OK
    names = ", ".join(each["fileName"] for each in known) or "none"
    detail = f"the suite {options.suite} has no profile {options.profile!r}; known: {names}"
    raise ApiProblem(status=404, code="profile_not_found", detail=detail)


ENVIRONMENT_COLUMNS: Final = (
    ListColumn(heading="ID", cell=lambda each: each["sandboxId"]),
    ListColumn(heading="STATUS", cell=lambda each: each["status"], is_status=True),
    ListColumn(heading="SUITE", cell=lambda each: each["suite"]),
    ListColumn(heading="OWNER", cell=lambda each: each["owner"]),
    ListColumn(heading="HAS", cell=lambda each: each["summary"]),
    ListColumn(heading="CPU", cell=lambda each: f"{each['resourceUsage']['cpuPercent']:g} %"),
    ListColumn(
        heading="MEMORY", cell=lambda each: bytes_text(each["resourceUsage"]["memoryBytes"])
    ),
    ListColumn(heading="AGE", cell=lambda each: age_of(each.get("startedAt"))),
    ListColumn(heading="BACKEND", cell=lambda each: each.get("backendId", _NONE), is_wide=True),
    ListColumn(
        heading="KEPT UNTIL", cell=lambda each: each.get("keepAliveUntil", ""), is_wide=True
    ),
)


def _add_environments(parser: Any) -> None:
    parser.add_argument("--status", default="", help="comma list, such as Zombie,Degraded")
    parser.add_argument("--search", default="", metavar="TEXT", help="text in any name")


def list_environments(session: CommandSession) -> int:
    options = session.options
    wanted = ",".join(each.strip().capitalize() for each in options.status.split(",") if each)
    found = session.client.environments(status=wanted, q=options.search)
    if session.form in ("json", "yaml"):
        show_document(found, session.form)
    else:
        rows = found["sandboxes"]
        show_list("sandboxes", rows, ENVIRONMENT_COLUMNS, session.form, key="sandboxId")
    for warning in found["warnings"]:
        note(f"warning: {printable(_warning_text(warning))}")
    return ExitCode.OK if found["containerRuntimeAvailable"] else ExitCode.UNAVAILABLE


def _warning_text(warning: Any) -> str:
    return str(warning.get("detail", warning) if isinstance(warning, dict) else warning)


def _add_environment(parser: Any) -> None:
    parser.add_argument("sandbox", metavar="ENVIRONMENT", help="id of the run, or of the orphan")


def show_environment(session: CommandSession) -> int:
    wanted = session.options.sandbox
    found = session.client.environments(q=wanted)["sandboxes"]
    each = next((each for each in found if each["sandboxId"] == wanted), None)
    if each is None:
        raise ApiProblem(
            status=404,
            code="sandbox_not_found",
            detail=f"there is no environment {wanted!r}",
            advice="partita environment list",
        )
    if not session.is_for_people:
        show_document(each, session.form, name=each["sandboxId"])
        return ExitCode.OK
    who = f"{each['suite']} of {each['owner']}"
    say(printable(f"{each['sandboxId']}  {each['status']}  {who}"))
    if reason := each.get("zombieReason"):
        say(printable(f"a zombie: {reason}"))
    supervisor = each.get("orchestratorId", "no supervisor")
    say(printable(f"supervisor: {supervisor} ({each['orchestratorState']})"))
    rows = [
        *(("container", unit["name"], unit["status"]) for unit in each["containers"]),
        *(("network", unit["name"], unit["driver"]) for unit in each["networks"]),
        *(("volume", unit["name"], unit["mountpoint"]) for unit in each["volumes"]),
    ]
    show_table(("KIND", "NAME", "IS"), rows)
    sys.stdout.flush()
    for warning in each["warnings"]:
        note(printable(f"warning: {_warning_text(warning)}"))
    return ExitCode.OK


PACKAGE_COLUMNS: Final = (
    ListColumn(heading="PACKAGE", cell=lambda each: each["repository"]),
    ListColumn(heading="VERSION", cell=lambda each: each["version"]),
    ListColumn(heading="KIND", cell=lambda each: each["kind"]),
    ListColumn(heading="STATUS", cell=lambda each: each["status"]),
    ListColumn(heading="SCORE", cell=lambda each: str(each["score"])),
    ListColumn(heading="PROVIDER", cell=lambda each: each["provider"]),
    ListColumn(heading="TITLE", cell=lambda each: each["title"]),
    ListColumn(heading="SUITE", cell=lambda each: each.get("suiteId", ""), is_wide=True),
    ListColumn(heading="OWNER", cell=lambda each: each["owner"], is_wide=True),
)


def _add_packages(parser: Any) -> None:
    parser.add_argument("--kind", choices=("suite", "stdlib"), default="")
    parser.add_argument("--limit", type=limit, default=50, help="1 to 1000, default 50")


def _add_search(parser: Any) -> None:
    parser.add_argument("text", metavar="TEXT", help="in title, repository, description or modules")
    _add_packages(parser)


def list_packages(session: CommandSession) -> int:
    options = session.options
    text = getattr(options, "text", "")
    found = session.client.packages(limit=options.limit, kind=options.kind, q=text)
    show_list("packages", found, PACKAGE_COLUMNS, session.form, key="id")
    return ExitCode.OK


SUITE: Final = CommandNoun(
    name="suite",
    is_shared=True,
    text="List and show the suites of a server; the other verbs work on local files.",
    verbs=(
        CommandVerb(
            name="list", text="list every suite", run=list_suites, add_arguments=_add_suites
        ),
        CommandVerb(
            name="show",
            text="show one suite: topology and profiles",
            run=show_suite,
            add_arguments=_add_suite,
        ),
    ),
    file_verbs=(*("validate", "lint", "new", "fmt", "lock", "push", "pull", "fork", "search"),),
    examples="""\
  partita suite list
  partita suite show hello""",
)
PROFILE: Final = CommandNoun(
    name="profile",
    is_shared=True,
    text="List and show the profiles of suites; the other verbs work on the local store.",
    verbs=(
        CommandVerb(
            name="list",
            text="list suites, or the profiles of one",
            run=list_profiles,
            add_arguments=_add_optional_suite,
        ),
        CommandVerb(
            name="show",
            text="print the YAML of a profile",
            run=show_profile,
            add_arguments=_add_profile,
            formats=("text", "json", "yaml"),
        ),
    ),
    store_verbs={
        "set": "store a profile, new or changed (of an `up` on this machine)",
        "delete": "delete a profile (of an `up` on this machine)",
        "default": "make a profile the default (of an `up` on this machine)",
        "env": "explain the environment of a step (of an `up` on this machine)",
    },
    examples="""\
  partita profile list shop
  partita profile show shop ci.yaml""",
)
ENVIRONMENT: Final = CommandNoun(
    name="environment",
    is_shared=True,
    text="Show what runs hold or left on container runtimes.",
    verbs=(
        CommandVerb(
            name="list",
            text="list environments",
            run=list_environments,
            add_arguments=_add_environments,
        ),
        CommandVerb(
            name="show",
            text="show one: what it has, and why",
            run=show_environment,
            add_arguments=_add_environment,
        ),
    ),
    store_verbs={
        "reap": "remove one environment (of an `up` on this machine)",
        "reap-all": "remove all of them, or zombies (of an `up` on this machine)",
    },
    examples="""\
  partita environment list --status zombie
  partita environment show run-0123456789ab""",
)
CATALOG: Final = CommandNoun(
    name="catalog",
    text="What registries, the workspace and Partita itself offer.",
    verbs=(
        CommandVerb(
            name="list", text="list packages", run=list_packages, add_arguments=_add_packages
        ),
        CommandVerb(
            name="search", text="search packages", run=list_packages, add_arguments=_add_search
        ),
    ),
    examples="""\
  partita catalog list --kind suite
  partita catalog search payment""",
)
