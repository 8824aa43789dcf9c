"""Commands, their verbs and options: docs/tables/commands.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from django.core.management import get_commands, load_command_class

from documentation.markdown import code, table
from platform_site.command_line import COMMANDS, PROGRAM

_OF_DJANGO: Final = (
    "help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color",
    "force_color", "skip_checks",
)  # fmt: skip


def page() -> str:
    chapters = [
        f"## {heading}\n\n{''.join(command(name, words) for name, words in group.items())}"
        for heading, group in COMMANDS.items()
    ]
    return (
        "# Commands and options\n\n"
        f"Every command of `{PROGRAM}` with its verbs and options, as `{PROGRAM} COMMAND --help` prints them. "
        "[The command line](../commands.md) has what they share: output, exit codes, and which store they use.\n\n"
        f"{''.join(chapters)}"
    )


def command(name: str, words: str) -> str:
    made = load_command_class(get_commands()[name], name)
    parser = made.create_parser(PROGRAM, name)
    heading = f"### {PROGRAM} {name}\n\n{words[:1].upper()}{words[1:]}.\n\n"
    return heading + "".join(
        f"#### {title}\n\n{words}{options}" for title, words, options in verbs(parser, name)
    ).removeprefix(f"#### {name}\n\n")


def verbs(parser: argparse.ArgumentParser, title: str) -> Iterator[tuple[str, str, str]]:
    """Yield (title, what it does, table of arguments) of a command and of each of its verbs."""
    own = arguments(parser)
    if own:
        yield title, "", f"{table(('Argument', 'Default', 'Meaning'), own)}\n"
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
