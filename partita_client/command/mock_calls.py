"""`mock explain` and `mock verify`: why a call is answered as it is, and whether calls came."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Iterator
from typing import Any, Final

from partita_client.command.mock_spaces import OUTCOMES, add_space, space_of
from partita_client.command.output import paint, printable, say, show_document
from partita_client.command.parser import CommandSession, CommandVerb, show_error
from partita_client.errors import ApiProblem, BadConfiguration
from partita_client.exit_codes import ExitCode

_FORMATS: Final = ("text", "json", "yaml")
_OPERATORS: Final = {
    "equals": "be", "matches": "match", "contains": "contain", "in": "be one of",
    "gt": "be greater than", "gte": "be at least", "lt": "be less than", "lte": "be at most",
}  # fmt: skip
_TEXTS: Final = {  # option → member of the body, help
    "--surface": ("surfaceId", "only of this API surface"),
    "--operation": ("operationId", "only of this operation, by its id"),
    "--method": ("method", "only with this method"),
    "--path": ("path", "only with this path below the surface; {x} is any one segment"),
    "--example": ("example", "only those that this example answered"),
    "--tag": ("tag", "only with this X-Partita-Mock-Tag"),
    "--since": ("since", "only since this time, such as 2026-01-02T03:04:05Z"),
}
_COUNTS: Final = {
    "--count": ("count", "so many calls there should be"),
    "--at-least": ("atLeast", "so many at least"),
    "--at-most": ("atMost", "so many at most"),
}


def header(line: str) -> tuple[str, str]:
    """Return the name and the value that `NAME: VALUE` has."""
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise ArgumentTypeError(f"{line!r}: expected 'NAME: VALUE'")
    return name.strip(), value.strip()


def _add_explain(parser: Any) -> None:
    add_space(parser)
    parser.add_argument("surface", metavar="SURFACE", help="the id of the API surface")
    parser.add_argument("method", metavar="METHOD", help="GET, POST, …; POST for gRPC and async")
    parser.add_argument(
        "path", metavar="PATH", help="the path below the surface, or the operation's id or name"
    )
    parser.add_argument(
        "-H", "--header", action="append", default=[], type=header, metavar="'NAME: VALUE'",
        help="repeatable, each name once",
    )  # fmt: skip
    parser.add_argument("-d", "--data", default="", help="the body, as it is sent")


def explain_call(session: CommandSession) -> int:
    options = session.options
    is_path = options.path.startswith("/")
    explained = space_of(session).explain(
        **{"path" if is_path else "operationId": options.path},
        surfaceId=options.surface,
        method=options.method,
        headers=_headers_of(options.header),
        body=options.data,
    )
    if session.is_for_people:
        for line in explanation_lines(explained):
            say(line)
    else:
        show_document(explained, session.form)
    return ExitCode.OK


def _headers_of(given: list[tuple[str, str]]) -> dict[str, str]:
    """Return headers by name; raise BadConfiguration for a name that is there twice."""
    names = [name.lower() for name, _ in given]
    for name, _ in given:
        if names.count(name.lower()) > 1:
            raise BadConfiguration(
                f"-H {name} is there twice", advice=f"-H '{name}: ONE, ANOTHER' has both values"
            )
    return dict(given)


def explanation_lines(explained: Any) -> Iterator[str]:
    """Yield what each example wants and what answers, one line for each condition."""
    name = paint(printable(explained["operationId"]), "bold")
    yield f"{name}, dispatcher {printable(explained['dispatcher'])}"
    wrong = paint("✗", "red")
    for each in explained.get("contractErrors", ()):
        yield f"  {wrong} contract {_fault(each)}"
    for each in explained["constraints"]:
        detail = f": {each['detail']}" if each.get("detail") else ""
        text = printable(f"{each['source']} {each['name']}{detail}")
        yield f"  {_mark(each['ok'])} constraint: {text}"
    for each in explained["candidates"]:
        chosen = "  ← answers" if each["name"] == explained.get("chosen") else ""
        yield f"  {_mark(each['matched'])} {paint(printable(each['name']), 'bold')}{chosen}"
        for one in each["conditions"]:
            actual = "missing" if "actual" not in one else f"it is {one['actual']!r}"
            yield f"      {_mark(one['ok'])} {printable(f'{requirement(one)}; {actual}')}"
    for each in explained["schemaErrors"]:
        yield f"  {wrong} request {_fault(each)}"
    yield from _outcome_lines(explained)


def requirement(condition: Any) -> str:
    """Return `query q must be 'x'` of an explained condition."""
    text = f"{condition['from']} {condition['param']}"
    operator, is_opposite = condition.get("operator", "equals"), bool(condition.get("not"))
    if operator == "absent":
        is_there = (condition["expected"] == "true") == is_opposite
        return f"{text} must be {'there' if is_there else 'absent'}"
    words = _OPERATORS.get(operator, operator)
    return f"{text} must{' not' if is_opposite else ''} {words} {condition['expected']!r}"


def _outcome_lines(explained: Any) -> Iterator[str]:
    fields = " ".join(f"{name}={value}" for name, value in explained.get("state", {}).items())
    lines = {
        "state record": f"{explained.get('stateKey', '')} {fields}".strip(),
        "fallback": explained.get("fallback", ""),
        "sent to": explained.get("proxyUrl", ""),
    }
    for words, text in lines.items():
        if text:
            yield f"  {words}: {printable(text)}"
    if response := explained.get("response"):
        shown = [f"status {response['status']}", printable(response["mediaType"])]
        if response["delayMillis"]:
            shown.append(f"after {response['delayMillis']} ms{_range(response.get('delay'))}")
        if fault := response.get("fault"):
            shown.append(paint(f"fault {printable(fault['kind'])}", "red"))
        yield f"  {', '.join(shown)}"
    if error := explained.get("error"):
        yield f"  {paint(printable(error['code']), 'red')}: {printable(error['detail'])}"


def _range(delay: Any) -> str:
    """Return what a delay is drawn from, empty for a fixed one."""
    if delay is None:
        return ""
    if "sigma" in delay:
        return f" (lognormal, median {delay['medianMillis']} ms, sigma {delay['sigma']:g})"
    return f" ({delay['lowestMillis']} to {delay['highestMillis']} ms)"


def _fault(error: Any) -> str:
    return printable(f"{error['pointer']}: {error['detail']}")


def _mark(is_good: bool) -> str:  # noqa: FBT001 - a value of a document
    return paint("✓", "green") if is_good else paint("✗", "red")


def _add_verify(parser: Any) -> None:
    add_space(parser)
    for option, (member, text) in _TEXTS.items():
        parser.add_argument(option, dest=member, metavar="TEXT", help=text)
    for option, (member, text) in _COUNTS.items():
        parser.add_argument(option, dest=member, type=int, metavar="N", help=text)
    parser.add_argument("--outcome", choices=OUTCOMES, help="only that ended so")
    parser.add_argument(
        "--valid", choices=("true", "false"), help="only calls that fit, or break, their contract"
    )
    parser.add_argument(
        "--unmatched", action="store_true", default=None, help="calls that nothing answered"
    )
    parser.add_argument(
        "--when",
        action="append",
        type=condition,
        metavar="CONDITION",
        help="SOURCE:NAME=VALUE, SOURCE:NAME~PATTERN, SOURCE:NAME (is there), or a condition of "
        "example files as JSON; SOURCE is path, query, header or body; repeatable",
    )


def verify_calls(session: CommandSession) -> int:
    """Return OK where as many calls came as expected, ERROR where not, USAGE for no question."""
    options = session.options
    names = [each[0] for each in (*_TEXTS.values(), *_COUNTS.values())]
    question = {name: getattr(options, name) for name in (*names, "outcome", "unmatched", "when")}
    if options.valid:
        question["valid"] = options.valid == "true"
    try:
        answer = space_of(session).verify(**question)
    except ApiProblem as error:
        if error.code != "validation_failed":
            raise
        show_error(error)
        return ExitCode.USAGE
    if session.is_for_people:
        say(f"{_mark(answer['verified'])} {printable(answer['detail'])}")
    else:
        show_document(answer, session.form)
    return ExitCode.OK if answer["verified"] else ExitCode.ERROR


def condition(text: str) -> Any:
    """Return the condition that a word of the command line says."""
    if text.startswith("{"):
        try:
            return dict(json.loads(text))
        except ValueError as error:
            raise ArgumentTypeError(f"{text!r} is not JSON: {error}") from None
    source, colon, rest = text.partition(":")
    at = next((place for place, each in enumerate(rest) if each in "=~"), len(rest))
    name, operator, value = rest[:at], rest[at : at + 1], rest[at + 1 :]
    if not (source and colon and name):
        raise ArgumentTypeError(f"{text!r}: expected SOURCE:NAME=VALUE")
    if not operator:
        return {"from": source, "param": name, "absent": False}
    return {"from": source, "param": name, "value" if operator == "=" else "matches": value}


VERBS: Final = (
    CommandVerb(
        name="explain",
        text="say which example answers a call, and why; call nothing",
        run=explain_call,
        add_arguments=_add_explain,
        formats=_FORMATS,
    ),
    CommandVerb(
        name="verify",
        text="count the calls of mocks; exit code 0: as many as expected, 1: not, 2: wrong "
        "question",
        run=verify_calls,
        add_arguments=_add_verify,
        formats=_FORMATS,
    ),
)
