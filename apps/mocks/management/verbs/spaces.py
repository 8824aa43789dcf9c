"""`mock state`, `mock journal` and `mock reset`: what is in a mock space."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from apps.mocks.management.server import MockServer, add_space, space_query
from apps.operations.api import (
    CommandOptions,
    ExitCode,
    VerbCommand,
    print_json,
    print_table,
    printable,
)
from kernel.errors import InvalidInput
from mocks.engine.documents import contract_words
from mocks.model.calls import CallOutcome

EXAMPLES: Final = """\
  partita mock state shop --run run-0123456789ab
  partita mock state shop --key order-1 --set status=paid       as if a call had set it
  partita mock journal shop --run run-0123456789ab --outcome no_match
  partita mock journal shop --follow                calls as they come
  partita mock reset shop                           records and counters, not the calls"""
_EVERY_S: Final = 1.0
_PAGE: Final = "200"
_CALL_COLUMNS: Final = (
    "TIME",
    "METHOD",
    "PATH",
    "STATUS",
    "OUTCOME",
    "EXAMPLE",
    "STEP",
    "TOOK",
    "CONTRACT",
)


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    state = command.add_verb(verbs, "state", show_state, "show records and counters, or set fields")
    add_space(state)
    state.add_argument("--key", default="", help="only the record of this key")
    state.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="needs --key"
    )
    state.add_argument("--unset", action="append", default=[], metavar="FIELD", help="needs --key")
    state.add_argument("--surface", default="", help="the owner of a record that --set makes")
    journal = command.add_verb(verbs, "journal", show_journal, "show the last calls, oldest first")
    add_space(journal)
    journal.add_argument(
        "-f", "--follow", action="store_true", help="go on with calls as they come"
    )
    journal.add_argument("--surface", default="", help="only of this API surface")
    journal.add_argument("--operation", default="", help="only of this operation, by its id")
    journal.add_argument(
        "--outcome",
        default="",
        choices=[*map(str, CallOutcome)],
        help="only calls that ended so",
    )
    journal.add_argument("--tag", default="", help="only with this X-Partita-Mock-Tag")
    reset = command.add_verb(verbs, "reset", reset_space, "remove records and counters of a space")
    add_space(reset)
    reset.add_argument("--surface", default="", help="only those of this API surface")
    reset.add_argument("--key", default="", help="only the record of this key")
    reset.add_argument("--calls", action="store_true", help="forget the calls too")


def show_state(options: CommandOptions) -> int:
    server = MockServer(options["server"])
    if options["set"] or options["unset"]:
        return _patch(server, options)
    query = {**space_query(options), "key": options["key"], "limit": _PAGE}
    pages = list(_pages(server, "state", query))
    records = [record for page in pages for record in page["records"]]
    counters = pages[0]["counters"]
    if options["output"] == "json":
        print_json({"records": records, "counters": counters})
        return ExitCode.OK
    rows = [
        (each["key"], _fields(each), str(each["version"]), each["updatedAt"]) for each in records
    ]
    print_table(("KEY", "FIELDS", "VERSION", "CHANGED"), rows)
    if counters:
        sys.stdout.write("\n")
        rows_of_counters = [
            (each["surfaceId"], each["operationId"], str(each["value"])) for each in counters
        ]
        print_table(("SURFACE", "OPERATION", "DRAWN"), rows_of_counters)
    return ExitCode.OK


def _patch(server: MockServer, options: CommandOptions) -> int:
    pairs = [each.partition("=") for each in options["set"]]
    if not options["key"]:
        raise InvalidInput("--set and --unset change one record: name it with --key")
    if wrong := [name for name, equals, _ in pairs if not (name and equals)]:
        raise InvalidInput(f"--set {wrong[0]!r}: expected FIELD=VALUE")
    body: dict[str, Any] = {
        **{name: value for name, value in space_query(options).items() if value},
        "key": options["key"],
        "set": {name: value for name, _, value in pairs},
        "delete": options["unset"],
    }
    if options["surface"]:
        body["surfaceId"] = options["surface"]
    record = server.ask("PATCH", "state", body=body)
    if options["output"] == "json":
        print_json(record)
    else:
        sys.stdout.write(
            f"{printable(record['key'])}  {_fields(record)}  version {record['version']}\n"
        )
    return ExitCode.OK


def show_journal(options: CommandOptions) -> int:
    server = MockServer(options["server"])
    query = {
        **space_query(options),
        "surfaceId": options["surface"],
        "operationId": options["operation"],
        "outcome": options["outcome"],
        "tag": options["tag"],
        "limit": _PAGE,
    }
    found = [call for page in _pages(server, "journal", query) for call in page["entries"]]
    calls = found[::-1]
    if not options["follow"]:
        if options["output"] == "json":
            print_json({"entries": calls})
        else:
            print_table(_CALL_COLUMNS, [_row(call) for call in calls])
        return ExitCode.OK
    _follow(server, query, calls, output=options["output"])
    return ExitCode.OK


def _follow(
    server: MockServer, query: Mapping[str, str], calls: list[dict[str, Any]], *, output: str
) -> None:
    """Print calls as they come, in JSON one object a line, until interrupted."""
    seen: set[str] = set()
    while True:
        for call in calls:
            as_json = output == "json"
            line = "  ".join(cell for cell in _row(call) if cell)
            text = json.dumps(call, ensure_ascii=False) if as_json else printable(line)
            sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        seen = seen | {call["id"] for call in calls}
        time.sleep(_EVERY_S)
        calls = _newer(server, query, seen)


def _newer(server: MockServer, query: Mapping[str, str], seen: set[str]) -> list[dict[str, Any]]:
    """Return the calls that were not seen, oldest first: pages until one has a call that was."""
    found: list[dict[str, Any]] = []
    for page in _pages(server, "journal", query):
        new = [call for call in page["entries"] if call["id"] not in seen]
        found += new
        if len(new) < len(page["entries"]):
            break
    return found[::-1]


def reset_space(options: CommandOptions) -> int:
    server = MockServer(options["server"])
    query = {**space_query(options), "surfaceId": options["surface"]}
    removed = server.ask("DELETE", "state", query={**query, "key": options["key"]})["removed"]
    calls = server.ask("DELETE", "journal", query=query)["removed"] if options["calls"] else 0
    if options["output"] == "json":
        print_json({"removed": removed, "forgottenCalls": calls})
    else:
        forgotten = f"; calls forgotten: {calls}" if options["calls"] else ""
        sys.stdout.write(f"records and counters removed: {removed}{forgotten}\n")
    return ExitCode.OK


def _pages(server: MockServer, what: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    page = server.ask("GET", what, query=query)
    yield page
    while "nextCursor" in page:
        page = server.ask("GET", what, query={**query, "cursor": page["nextCursor"]})
        yield page


def _fields(record: Mapping[str, Any]) -> str:
    return printable(" ".join(f"{name}={value}" for name, value in record["fields"].items()))


def _row(call: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        call["time"][11:23],
        call["method"],
        f"{call['path']}?{query}" if (query := call.get("requestQuery")) else call["path"],
        str(call["status"]),
        call["outcome"],
        call.get("matchedExample", ""),
        call.get("stepId", ""),
        f"{call['durationMs']} ms",
        _remark(call),
    )


def _remark(call: Mapping[str, Any]) -> str:
    if "fault" in call:
        return f"fault {call['fault']}"
    return call.get("detail") or contract_words(call.get("contractErrors", ()))
