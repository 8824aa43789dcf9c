"""Nouns, verbs and their options. A mistake is answered with what was most likely meant."""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from partita_client.client import Client
from partita_client.command.output import (
    FORMATS,
    note,
    printable,
    printable_lines,
    terminal_columns,
)
from partita_client.durations import parse_duration_ms
from partita_client.errors import ClientError
from partita_client.exit_codes import EXIT_CODES_HELP
from partita_client.server_choice import GivenServer, ServerChoice, choose_server

USAGE: Final = 2
LOCAL_OPTION: Final = "--local"
_MEANT: Final = {
    "list": "ls ps all",
    "show": "get describe view status info",
    "launch": "start create run exec trigger",
    "logs": "log tail output",
    "cancel": "stop kill abort delete",
    "rerun": "retry restart repeat",
    "watch": "follow attach",
    "why": "explain reason",
    "open": "browse web",
    "use": "set switch",
    "remove": "rm delete",
    "artifacts": "reports files",
    "history": "tasks list log syncs",
    "trigger": "sync apply run reconcile now",
    "check": "validate lint verify",
    "plan": "diff preview dry-run",
    "journal": "calls log logs requests",
    "apply": "set put replace import update edit",
    "registries": "registry",
    "drain": "cordon pause disable",
    "resume": "uncordon unpause enable undrain",
}


@dataclass(slots=True, kw_only=True)
class CommandSession:
    """One typed command: its options, and the server that it means.

    `asked_url`: the address of the server whose answers it reads, empty before there is one.
    """

    options: argparse.Namespace
    asked_url: str = field(default="", init=False)
    _note: Callable[[str], None] = field(default=note, init=False)
    _client: Client | None = field(default=None, init=False)
    _choice: ServerChoice | None = field(default=None, init=False)

    @property
    def form(self) -> str:
        """The value of `-o`."""
        return str(getattr(self.options, "output", "text"))

    @property
    def jq(self) -> str | None:
        """The value of `--jq`."""
        found: str | None = getattr(self.options, "jq", None)
        return found

    @property
    def is_for_people(self) -> bool:
        return self.form in ("text", "table", "wide")

    @property
    def choice(self) -> ServerChoice:
        if self._choice is None:
            self._choice = choose_server(given_server(self.options))
        return self._choice

    @property
    def client(self) -> Client:
        if self._client is None:
            choice = self.choice
            self._client = self.connect(
                choice.url, token=choice.token, ca_file=choice.ca_file, new_token=choice.new_token
            )
        return self._client

    def connect(
        self,
        url: str,
        *,
        token: str = "",
        ca_file: str = "",
        new_token: Callable[[], str] | None = None,
    ) -> Client:
        """Return a client of a server, which from now on is the one that was asked."""
        self.asked_url = url
        return Client(url, token=token, ca_file=ca_file, on_away=self.say_away, new_token=new_token)

    def say_away(self, why: str) -> None:
        self._note(f"{printable(why)}; waiting for the server, no line will be missed")

    @contextmanager
    def notes_to(self, write: Callable[[str], None]) -> Iterator[None]:
        """Give notes about the connection to `write` for a while, instead of stderr."""
        self._note = write
        try:
            yield
        finally:
            self._note = note

    @property
    def origin(self) -> str:
        """Return what named the server that was asked, empty before there is one."""
        return self._choice.origin if self._choice is not None else ""

    @property
    def has_asked_an_up(self) -> bool:
        """Whether the server that was asked is an `up` of this machine."""
        return self._choice is not None and bool(self._choice.data_dir)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def given_server(options: argparse.Namespace) -> GivenServer:
    return GivenServer(
        url=getattr(options, "server", ""),
        context=getattr(options, "context_name", ""),
        ca_file=getattr(options, "ca_file", ""),
    )


def add_partita_server(parser: Any) -> None:
    """Add the options that say which server is meant."""
    server = parser.add_argument_group("server")
    server.add_argument("--server", default="", metavar="URL", help="else PARTITA_URL")
    server.add_argument(
        "--context", dest="context_name", default="", metavar="NAME", help="else PARTITA_CONTEXT"
    )
    server.add_argument(
        "--ca-file", default="", metavar="FILE", help="a private authority; else PARTITA_CA_FILE"
    )


def no_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: the verb has no options of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandVerb:
    """A verb: what it does, and what adds its options. Its name is empty where a noun has one."""

    name: str
    text: str
    run: Callable[[CommandSession], int]
    add_arguments: Callable[[argparse.ArgumentParser], None] = no_arguments
    formats: Sequence[str] = FORMATS


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandNoun:
    """A noun with its verbs.

    `store_verbs` work beside the store alone, `file_verbs` on files, whatever server is meant.
    `is_shared`: the verbs of a noun of both halves work on files and the store without a server.
    `store_place` begins a sentence that says where that store is. `add_server` adds the options
    that name a server; `live_values` completes options and arguments, by their names.
    `choose_half` says which half runs a verb, where a noun has its own kind of server, and
    `exit_codes` what its verbs end with.
    """

    name: str
    text: str
    verbs: Sequence[CommandVerb]
    examples: str
    store_verbs: Mapping[str, str] = field(default_factory=dict)
    file_verbs: Sequence[str] = ()
    store_place: str = "With an `up` on this machine"
    add_server: Callable[[Any], None] = add_partita_server
    live_values: Mapping[str, Callable[[Any], list[str]]] = field(default_factory=dict)
    is_shared: bool = False
    exit_codes: str = EXIT_CODES_HELP
    choose_half: Callable[..., Any] | None = None

    @property
    def names(self) -> list[str]:
        """The names of all verbs."""
        found = [*(each.name for each in self.verbs), *self.store_verbs, *self.file_verbs]
        return list(dict.fromkeys(found))

    def find(self, name: str) -> CommandVerb | None:
        return next((verb for verb in self.verbs if verb.name == name), None)

    @property
    def help(self) -> str:
        texts = {verb.name: verb.text for verb in self.verbs} | dict(self.store_verbs)
        width = max(map(len, texts))
        lines = [f"usage: partita {self.name} VERB …", "", self.text, ""]
        lines += [f"  {name:<{width}}  {text}" for name, text in texts.items()]
        lines += ["", "examples:", self.examples.rstrip(), "", self.exit_codes]
        return "\n".join(lines)


class CommandLine(argparse.ArgumentParser):
    """A parser whose errors name the option that was most likely meant."""

    def error(self, message: str) -> NoReturn:
        known = [each for action in self._actions for each in action.option_strings]
        wrong = re.findall(r"(?<![\w-])--?[a-z][\w-]*", message.partition(":")[2])
        hints = filter(None, (hint_at(word, known) for word in wrong if word not in known))
        self.print_usage(_Stderr())
        note(f"error: {message}{next(hints, '')}")
        note(f"next: {self.prog} --help")
        raise SystemExit(USAGE)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is no choice, as argparse does, and name the one that was meant."""
        if action.choices is not None and value not in action.choices:
            known = [str(each) for each in action.choices]
            words = f"{value!r}: choose from {', '.join(known)}{hint_at(str(value), known)}"
            raise argparse.ArgumentError(action, words)


class _HelpText(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal; argparse makes one for each option that it is given."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_columns() - 2)


class _Stderr:
    """Where argparse writes its usage."""

    def write(self, text: str) -> None:
        note(text.rstrip("\n"))


def parse_verb(noun: CommandNoun, verb: CommandVerb, words: Sequence[str]) -> argparse.Namespace:
    """Return the options of a typed verb; end with 2 for a mistake and 0 for `--help`.

    `--jq` filters the document of `-o json`, which it therefore implies.
    """
    parser = verb_parser(noun, verb)
    options = parser.parse_args(list(words))
    if getattr(options, "jq", None) is not None:
        if options.output not in (verb.formats[0], "json"):
            parser.error(f"--jq filters the document of -o json: leave out -o {options.output}")
        options.output = "json"
    return options


def verb_parser(noun: CommandNoun, verb: CommandVerb) -> CommandLine:
    parser = CommandLine(
        prog=" ".join(["partita", noun.name, verb.name]).rstrip(),
        description=f"{verb.text[:1].upper()}{verb.text[1:]}.",
        epilog=f"examples:\n{noun.examples.rstrip()}\n\n{noun.exit_codes}",
        formatter_class=_HelpText,
        allow_abbrev=False,
    )
    verb.add_arguments(parser)
    if verb.formats:
        parser.add_argument(
            "-o",
            "--output",
            choices=verb.formats,
            default=verb.formats[0],
            help="tables for people (text, table, wide), name: ids alone; json, yaml, ndjson",
        )
    if "json" in verb.formats:
        parser.add_argument(
            "--jq",
            metavar="EXPRESSION",
            help="filter the document of -o json as jq does; strings are printed as they are",
        )
    noun.add_server(parser)
    if noun.is_shared:
        parser.add_argument(
            LOCAL_OPTION, action="store_true", help="no server: the files and the store here"
        )
    return parser


def nearest_name(word: str, known: Sequence[str]) -> str:
    """Return the name that was most likely meant, empty if there is none."""
    for name, others in _MEANT.items():
        if name in known and word.lower() in others.split():
            return name
    close = closest_names(word.lower(), known)
    return close[0] if close else ""


def closest_names(word: str, known: Sequence[str], *, cutoff: float = 0.6) -> Sequence[str]:
    """Return the name that is spelled most alike, nothing if none is."""
    import difflib  # for mistakes alone

    return difflib.get_close_matches(word, known, n=1, cutoff=cutoff)


def hint_at(word: str, known: Sequence[str]) -> str:
    """Return what ends a sentence about a wrong word: the name that was most likely meant.

    Case and dashes count for nothing: they make short names alike, or unlike.
    """
    names = {each.lower().strip("-"): each for each in known}
    close = closest_names(word.lower().strip("-"), list(names), cutoff=0.65)
    return f"; did you mean {names[close[0]]}?" if close else ""


# types of arguments


def run_id_of(text: str) -> str:
    """Return a run's id, also from the address of its page."""
    name = urlsplit(text.strip()).path.rstrip("/").rpartition("/")[2]
    if not name:
        raise ArgumentTypeError(f"{text!r}: expected a run, such as run-0123456789ab")
    return name


def seconds(text: str) -> float:
    return _duration_ms(text) / 1000


def _duration_ms(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def keep_ms(text: str) -> int:
    wanted = _duration_ms(text)
    if wanted > 14_400_000:  # noqa: PLR2004 - reference: control-plane 11.9
        raise ArgumentTypeError(f"{text!r}: an environment is kept for at most 4h")
    return wanted


def keep_ms_or_none(text: str) -> int:
    return 0 if text in ("no", "0") else keep_ms(text)


def limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:  # noqa: PLR2004
        raise ArgumentTypeError(f"{text!r}: expected 1 to 1000")
    return int(text)


def add_run(parser: Any) -> None:
    parser.add_argument("run", type=run_id_of, metavar="RUN", help="its id, or its page's address")


def show_error(error: ClientError) -> int:
    """Print an error with what to do next; return the exit code.

    Text of the server cannot drive the terminal, nor look like a line of the client.
    """
    code = printable(str(getattr(error, "code", "")))
    note(f"error{f' {code}' if code else ''}: {_indent(error.detail)}")
    for entry in getattr(error, "errors", ()):
        place = ":".join(str(entry[key]) for key in ("file", "line", "column") if entry.get(key))
        where = place or str(entry.get("pointer", ""))
        if entry.get("detail") and str(entry["detail"]) not in error.detail:
            note(f"  {printable(where)}: {_indent(str(entry['detail']))}")
    if error.advice:
        note(f"next: {printable_lines(error.advice)}")
    return int(error.exit_code)


def _indent(text: str) -> str:
    """Return text that cannot drive a terminal, its further lines below the first."""
    return "\n  ".join(printable(line).strip() for line in text.split("\n"))
