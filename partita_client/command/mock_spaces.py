"""`mock state`, `mock journal` and `mock reset`: what is in a mock space."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from partita_client.command.output import (
    ListColumn,
    age_of,
    note,
    printable,
    say,
    show_document,
    show_list,
)
from partita_client.command.parser import CommandSession, CommandVerb, run_id_of
from partita_client.errors import BadConfiguration
from partita_client.event_stream import AWAY_S
from partita_client.exit_codes import ExitCode
from partita_client.mock_space import SuiteMocks
from partita_client.patience import wait_for_answer

OUTCOMES: Final = ("example", "fallback", "no_match", "rejected", "error")
_EVERY_S: Final = 1.0
_REMEMBERED: Final = 10_000  # calls that were printed; a space keeps 1,000


def add_space(parser: Any) -> None:
    """Add the arguments that name a space."""
    parser.add_argument("suite", metavar="SUITE", help="the suite that serves the mocks")
    parser.add_argument(
        "--run",
        type=run_id_of,
        metavar="RUN",
        help="the space of this run, by its id or its page's address (default: the shared one)",
    )
    parser.add_argument(
        "--import",
        default="",
        dest="path_of_import",
        metavar="PATH",
        help="where the run imports the suite, such as pay",
    )


def space_of(session: CommandSession) -> SuiteMocks:
    options = session.options
    return SuiteMocks(
        session.client, options.suite, run=options.run or "", path_of_import=options.path_of_import
    )


def _fields(record: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in record["fields"].items())


RECORD_COLUMNS: Final = (
    ListColumn(heading="KEY", cell=lambda each: each["key"]),
    ListColumn(heading="FIELDS", cell=_fields),
    ListColumn(heading="VERSION", cell=lambda each: str(each["version"])),
    ListColumn(heading="AGE", cell=lambda each: age_of(each["updatedAt"])),
    ListColumn(heading="CHANGED", cell=lambda each: each["updatedAt"], is_wide=True),
    ListColumn(heading="SURFACE", cell=lambda each: each["surfaceId"], is_wide=True),
)
COUNTER_COLUMNS: Final = (
    ListColumn(heading="SURFACE", cell=lambda each: each["surfaceId"]),
    ListColumn(heading="OPERATION", cell=lambda each: each["operationId"]),
    ListColumn(heading="DRAWN", cell=lambda each: str(each["value"])),
)


def _add_state(parser: Any) -> None:
    add_space(parser)
    parser.add_argument("--key", default="", help="only the record of this key")
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="needs --key"
    )
    parser.add_argument("--unset", action="append", default=[], metavar="FIELD", help="needs --key")
    parser.add_argument("--surface", default="", help="the owner of a record that --set makes")


def show_state(session: CommandSession) -> int:
    options, space = session.options, space_of(session)
    if options.set or options.unset:
        return _change_state(session, space)
    state = space.state(key=options.key)
    if session.form in ("json", "yaml"):
        show_document(state, session.form)
        return ExitCode.OK
    show_list("records", state["records"], RECORD_COLUMNS, session.form, key="key")
    if session.is_for_people and not (state["records"] or state["counters"]):
        note("no records and no counters in this space yet")
    if session.is_for_people and state["counters"]:
        say("")
        show_list("counters", state["counters"], COUNTER_COLUMNS, session.form, key="operationId")
    return ExitCode.OK


def _change_state(session: CommandSession, space: SuiteMocks) -> int:
    options = session.options
    if not options.key:
        raise BadConfiguration("--set and --unset change one record: name it with --key")
    pairs = [each.partition("=") for each in options.set]
    if wrong := [name for name, equals, _ in pairs if not (name and equals)]:
        raise BadConfiguration(f"--set {wrong[0]!r}: expected FIELD=VALUE")
    fields = {name: value for name, _, value in pairs}
    record = space.set_fields(options.key, fields, unset=options.unset, surface=options.surface)
    if session.is_for_people:
        say(printable(f"{record['key']}  {_fields(record)}  version {record['version']}"))
    else:
        show_document(record, session.form, name=record["key"])
    return ExitCode.OK


def _path(call: Any) -> str:
    query = call.get("requestQuery")
    return f"{call['path']}?{query}" if query else str(call["path"])


def _remark(call: Any) -> str:
    if "fault" in call:
        return f"fault {call['fault']}"
    return str(call.get("detail", "")) or _contract_words(call.get("contractErrors", ()))


def _contract_words(errors: Any) -> str:
    """Return how a call breaks its contract, empty if it does not."""
    if not errors:
        return ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0]['pointer']}: {errors[0]['detail']}{more}"


CALL_COLUMNS: Final = (
    ListColumn(heading="TIME", cell=lambda each: each["time"][11:23]),
    ListColumn(heading="METHOD", cell=lambda each: each["method"]),
    ListColumn(heading="PATH", cell=_path),
    ListColumn(heading="STATUS", cell=lambda each: str(each["status"])),
    ListColumn(heading="OUTCOME", cell=lambda each: each["outcome"]),
    ListColumn(heading="EXAMPLE", cell=lambda each: each.get("matchedExample", "")),
    ListColumn(heading="STEP", cell=lambda each: each.get("stepId", "")),
    ListColumn(heading="TOOK", cell=lambda each: f"{each['durationMs']} ms"),
    ListColumn(heading="SURFACE", cell=lambda each: each["surfaceId"], is_wide=True),
    ListColumn(heading="TAG", cell=lambda each: each.get("tag", ""), is_wide=True),
    ListColumn(heading="DATE", cell=lambda each: each["time"], is_wide=True),
    ListColumn(heading="ID", cell=lambda each: each["id"], is_wide=True),
    ListColumn(heading="CONTRACT", cell=_remark),
)


def _add_journal(parser: Any) -> None:
    add_space(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on with calls as they come")
    parser.add_argument("--surface", default="", help="only of this API surface")
    parser.add_argument("--operation", default="", help="only of this operation, by its id")
    parser.add_argument("--outcome", default="", choices=OUTCOMES, help="only that ended so")
    parser.add_argument("--tag", default="", help="only with this X-Partita-Mock-Tag")


def show_journal(session: CommandSession) -> int:
    """Print the kept calls, the oldest first; with `--follow` go on until interrupted."""
    options, space = session.options, space_of(session)
    if options.follow and session.jq is not None:
        raise BadConfiguration(
            "--jq filters one document, and --follow has no end: leave out one of them",
            advice="a document a line for jq itself: --follow -o ndjson | jq …",
        )
    only = {
        "surfaceId": options.surface,
        "operationId": options.operation,
        "outcome": options.outcome,
        "tag": options.tag,
    }
    calls = [call for page in space.journal(**only) for call in page][::-1]
    if options.follow:
        _follow_journal(session, space, only, calls)
    show_list("entries", calls, CALL_COLUMNS, session.form, key="id")
    return ExitCode.OK


def _follow_journal(
    session: CommandSession, space: SuiteMocks, only: Mapping[str, str], calls: list[Any]
) -> None:
    """Print each call once, for programs one document a line, until interrupted."""
    form = "ndjson" if session.form == "json" else session.form
    printed: dict[str, None] = {}
    while True:
        for call in calls:
            if session.is_for_people:
                say(_call_line(call, form))
            else:
                show_list("entries", [call], CALL_COLUMNS, form, key="id")
        sys.stdout.flush()
        printed |= dict.fromkeys(call["id"] for call in calls)
        printed = dict.fromkeys(islice(reversed(printed), _REMEMBERED))
        printed = dict.fromkeys(reversed(printed))
        time.sleep(_EVERY_S)
        calls = _wait_for_newer(session, space, only, printed)[::-1]


def _call_line(call: Any, form: str) -> str:
    columns = (each for each in CALL_COLUMNS if form == "wide" or not each.is_wide)
    return "  ".join(printable(cell) for column in columns if (cell := column.cell(call)))


def _wait_for_newer(
    session: CommandSession, space: SuiteMocks, only: Mapping[str, str], known: Mapping[str, None]
) -> list[Any]:
    return wait_for_answer(
        lambda: [*_newer(space, only, known)],
        until=time.monotonic() + AWAY_S,
        on_away=session.say_away,
    )


def _newer(space: SuiteMocks, only: Mapping[str, str], known: Mapping[str, None]) -> Iterator[Any]:
    """Yield the calls that are not known, the newest first: pages until one has a known call."""
    for page in space.journal(**only):
        new = [call for call in page if call["id"] not in known]
        yield from new
        if len(new) < len(page):
            return


def _add_reset(parser: Any) -> None:
    add_space(parser)
    parser.add_argument("--surface", default="", help="only those of this API surface")
    parser.add_argument("--key", default="", help="only the record of this key")
    parser.add_argument("--calls", action="store_true", help="forget the calls too")


def reset_space(session: CommandSession) -> int:
    options, space = session.options, space_of(session)
    removed = space.reset(surface=options.surface, key=options.key)
    calls = space.forget_calls(surface=options.surface) if options.calls else 0
    if session.is_for_people:
        forgotten = f"; calls forgotten: {calls}" if options.calls else ""
        say(f"records and counters removed: {removed}{forgotten}")
    else:
        show_document({"removed": removed, "forgottenCalls": calls}, session.form)
    return ExitCode.OK


VERBS: Final = (
    CommandVerb(
        name="state",
        text="show records and counters, or set fields",
        run=show_state,
        add_arguments=_add_state,
    ),
    CommandVerb(
        name="journal",
        text="show the last calls, the oldest first",
        run=show_journal,
        add_arguments=_add_journal,
    ),
    CommandVerb(
        name="reset",
        text="remove records and counters of a space",
        run=reset_space,
        add_arguments=_add_reset,
        formats=("text", "json", "yaml"),
    ),
)
