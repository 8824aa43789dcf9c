"""Commands, their verbs and options: docs/tables/commands.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from django.core.management import get_commands, load_command_class

from documentation.markdown import code, codes, table
from partita_client.command.parser import CommandNoun, CommandVerb, verb_parser
from partita_client.command.program import NOUNS, find_noun
from platform_site.command_line import COMMANDS, PROGRAM

_HEADER: Final = ("Argument", "Default", "Meaning")
_OF_DJANGO: Final = (
    "help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color",
    "force_color", "skip_checks",
)  # fmt: skip


def page() -> str:
    chapters = [
        f"## {heading}\n\n{''.join(command(name, words) for name, words in group.items())}"
        for heading, group in COMMANDS.items()
    ]
    chapters.insert(1, client_chapter())  # after what starts Partita
    return (
        "# Commands and options\n\n"
        f"Every command of `{PROGRAM}` with its verbs and options, as `{PROGRAM} COMMAND --help` prints them. "
        "[The command line](../commands.md) has what they share: output, exit codes, and which server or store they use. "
        f"`{PROGRAM} admin COMMAND` works on the store beside it where a command of the same name asks a server.\n\n"
        f"{''.join(chapters)}"
    )


def client_chapter() -> str:
    """Return the verbs that ask a server, and once what all of them take."""
    nouns = "".join(client_noun(noun) for name in NOUNS if (noun := find_noun(name)))
    return (
        "## Servers, and runs on them\n\n"
        "These verbs ask a server ([which one](../commands.md#which-server)). Each also takes the following, "
        "`--jq` where it has `-o json`; `sync` asks an orchestrator, and has no `--context`:\n\n"
        f"{table(_HEADER, _shared_arguments())}\n{nouns}"
    )


def _shared_arguments() -> list[tuple[str, str, str]]:
    verb = CommandVerb(name="", text="", run=lambda _: 0, formats=("json",))
    parser = verb_parser(CommandNoun(name="", text="", verbs=(verb,), examples=""), verb)
    return [row for row in arguments(parser) if not row[0].startswith("`-o ")]


def client_noun(noun: CommandNoun) -> str:
    """Return the section of a noun: its verbs, and those that need an `up` on this machine."""
    shared = _shared_arguments()
    parts = [f"### {PROGRAM} {noun.name}\n\n{noun.text}\n\n"]
    for verb in noun.verbs:
        own = [row for row in arguments(verb_parser(noun, verb)) if row not in shared]
        if verb.name:
            text = f"{verb.text[:1].upper()}{verb.text[1:]}."
            parts.append(f"#### {noun.name} {verb.name}\n\n{text}\n\n")
        if own:
            parts.append(f"{table(_HEADER, own)}\n")
    if noun.store_verbs:
        names = codes(f"{noun.name} {name}" for name in noun.store_verbs)
        parts.append(f"{noun.store_place}, also {names}, as below.\n\n")
    return "".join(parts)


def command(name: str, words: str) -> str:
    """Return the section of a command beside the store, `admin` where the client has its name."""
    made = load_command_class(get_commands()[name], name)
    parser = made.create_parser(PROGRAM, name)
    shown = f"admin {name}" if name in NOUNS else name
    heading = f"### {PROGRAM} {shown}\n\n{words[:1].upper()}{words[1:]}.\n\n"
    return heading + "".join(
        f"#### {_command_form(title)}\n\n{words}{options}"
        for title, words, options in verbs(parser, name)
    ).removeprefix(f"#### {_command_form(name)}\n\n")


def _command_form(title: str) -> str:
    """Return the title of a verb as people type it: `admin` leads past the client's verb."""
    name, _, verb = title.partition(" ")
    noun = find_noun(name)
    return f"admin {title}" if noun and noun.find(verb) else title


def verbs(parser: argparse.ArgumentParser, title: str) -> Iterator[tuple[str, str, str]]:
    """Yield (title, what it does, table of arguments) of a command and of each of its verbs."""
    own = arguments(parser)
    if own:
        yield title, "", f"{table(_HEADER, own)}\n"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for verb, below in _without_aliases(action.choices).items():
                text = words.get(verb, "") or below.description or ""
                said = f"{text[:1].upper()}{text[1:].rstrip('.')}.\n\n" if text else ""
                tables = list(verbs(below, f"{title} {verb}"))
                if not tables or tables[0][0] != f"{title} {verb}":
                    yield f"{title} {verb}", said, ""
                    yield from tables
                else:
                    yield f"{title} {verb}", said, tables[0][2]
                    yield from tables[1:]


def _without_aliases(
    choices: Mapping[str, argparse.ArgumentParser],
) -> dict[str, argparse.ArgumentParser]:
    names: dict[int, str] = {}
    for name, parser in choices.items():
        names.setdefault(id(parser), name)
    return {name: choices[name] for name in names.values()}


def arguments(parser: argparse.ArgumentParser) -> list[tuple[str, str, str]]:
    """Return (argument, default, meaning) of each argument that is not Django's."""
    return [
        (_spelling(action), _default(action), _meaning(action, parser))
        for action in parser._actions
        if action.dest not in _OF_DJANGO
        and not isinstance(action, argparse._SubParsersAction)
        and action.help != argparse.SUPPRESS
    ]


def _spelling(action: argparse.Action) -> str:
    metavar = action.metavar[0] if isinstance(action.metavar, tuple) else action.metavar
    value = metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else "")
    if not action.option_strings:
        return code(value or action.dest.upper())
    takes_value = action.nargs != 0
    shown = f" {value or action.dest.upper()}" if takes_value else ""
    return ", ".join(code(f"{option}{shown}") for option in action.option_strings)


def _default(action: argparse.Action) -> str:
    if action.required and action.option_strings:
        return "required"
    default = action.default
    if default in (None, False, argparse.SUPPRESS, "") or isinstance(default, list | tuple):
        return ""
    return code(default)


def _meaning(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    known = {**vars(action), "prog": parser.prog}
    text = (action.help or "") % known if "%" in (action.help or "") else action.help or ""
    return text.replace("<", "&lt;")
