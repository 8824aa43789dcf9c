"""`mock explain`: why a call is answered as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from apps.mocks.api import requirement
from apps.mocks.management.server import MockServer, add_space, space_query
from apps.operations.api import CommandOptions, ExitCode, VerbCommand, escape, print_json
from kernel.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES: Final = """\
  partita mock explain shop shop GET '/goods?q=ea'
  partita mock explain shop shop POST /orders -H 'X-Trace: 1' -d '{"apple": 2}'
  partita mock explain shop payments POST Capture -d '{"order": 1}' --run run-0123456789ab"""


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    explain = command.add_verb(
        verbs, "explain", explain_call, "say which example answers a call, and why; call nothing"
    )
    add_space(explain)
    explain.add_argument("surface", help="the id of the API surface")
    explain.add_argument("method", metavar="METHOD", help="GET, POST, …; POST for gRPC and async")
    explain.add_argument(
        "path", metavar="PATH", help="the path below the surface, or the operation's id or name"
    )
    explain.add_argument(
        "-H", "--header", action="append", default=[], metavar="'NAME: VALUE'", help="repeatable"
    )
    explain.add_argument("-d", "--data", default="", help="the body, as it is sent")


def explain_call(options: CommandOptions) -> int:
    path = options["path"]
    where = {"path": path} if path.startswith("/") else {"operationId": path}
    body = {
        **{name: value for name, value in space_query(options).items() if value},
        **where,
        "surfaceId": options["surface"],
        "method": options["method"],
        "headers": dict(_header(line) for line in options["header"]),
        "body": options["data"],
    }
    explained = MockServer(options["server"]).ask("POST", "explain", body=body)
    if options["output"] == "json":
        print_json(explained)
    else:
        _print(explained)
    return ExitCode.OK


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise InvalidInput(f"-H {line!r}: expected 'NAME: VALUE'")
    return name.strip(), value.strip()


def _print(explained: Mapping[str, Any]) -> None:
    from rich.console import Console  # slow to import

    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"[bold]{escape(explained['operationId'])}[/], dispatcher {escape(explained['dispatcher'])}"
    )
    for each in explained.get("contractErrors", ()):
        console.print(f"  [red]✗[/] contract {escape(each['pointer'] + ': ' + each['detail'])}")
    for each in explained["constraints"]:
        detail = f": {each['detail']}" if each.get("detail") else ""
        text = escape(f"{each['source']} {each['name']}{detail}")
        console.print(f"  {_mark(each['ok'])} constraint: {text}")
    for each in explained["candidates"]:
        chosen = "  ← answers" if each["name"] == explained.get("chosen") else ""
        console.print(f"  {_mark(each['matched'])} [bold]{escape(each['name'])}[/]{chosen}")
        for one in each["conditions"]:
            actual = "missing" if "actual" not in one else f"it is {one['actual']!r}"
            text = f"{requirement(one)}; {actual}"
            console.print(f"      {_mark(one['ok'])} {escape(text)}")
    for each in explained["schemaErrors"]:
        console.print(f"  [red]✗[/] request {escape(each['pointer'] + ': ' + each['detail'])}")
    _print_outcome(console, explained)


def _print_outcome(console: Console, explained: Mapping[str, Any]) -> None:
    fields = " ".join(f"{name}={value}" for name, value in explained.get("state", {}).items())
    lines = {
        "state record": f"{explained.get('stateKey', '')} {fields}".strip(),
        "fallback": explained.get("fallback", ""),
        "sent to": explained.get("proxyUrl", ""),
    }
    for words, text in lines.items():
        if text:
            console.print(f"  {words}: {escape(text)}")
    if response := explained.get("response"):
        shown = [f"status {response['status']}", escape(response["mediaType"])]
        if response["delayMillis"]:
            shown.append(f"after {response['delayMillis']} ms{_range(response.get('delay'))}")
        if fault := response.get("fault"):
            shown.append(f"[red]fault {fault['kind']}[/]")
        console.print(f"  {', '.join(shown)}")
    if error := explained.get("error"):
        console.print(f"  [red]{escape(error['code'])}[/]: {escape(error['detail'])}")


def _range(delay: Mapping[str, Any] | None) -> str:
    """Return what a delay is drawn from, "" for a fixed one."""
    if delay is None:
        return ""
    if "sigma" in delay:
        return f" (lognormal, median {delay['medianMillis']} ms, sigma {delay['sigma']:g})"
    return f" ({delay['lowestMillis']} to {delay['highestMillis']} ms)"


def _mark(is_good: bool) -> str:  # noqa: FBT001 - a value of a document
    return "[green]✓[/]" if is_good else "[red]✗[/]"
