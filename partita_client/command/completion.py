"""`completion`: scripts for shells, and the words that they ask for, live ids included."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from partita_client.client import Client
from partita_client.command.output import printable, say
from partita_client.command.parser import (
    CommandNoun,
    CommandSession,
    CommandVerb,
    given_server,
    verb_parser,
)
from partita_client.command.run_reads import STATUSES
from partita_client.contexts import read_contexts
from partita_client.errors import ClientError
from partita_client.exit_codes import ExitCode
from partita_client.installation import ServerInstallation
from partita_client.server_choice import choose_server

_PATIENCE_S: Final = 2.0
_MOST: Final = 50
_BASH: Final = r"""# partita completion bash > ~/.local/share/bash-completion/completions/partita
_partita() {
  # bash splits COMP_WORDS at : and = too, which addresses and --name=value have
  local line=${COMP_LINE:0:COMP_POINT} words=() IFS=$' \t\n'
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local current=${words[${#words[@]}-1]} breaks=${COMP_WORDBREAKS//[^:=]/} IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]}" __complete "${words[@]:1}" 2>/dev/null))
  # what stands before the last of them is kept by bash, and not in the answer
  if [[ $breaks ]]; then
    local before=${current%"${current##*[$breaks]}"}
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
  fi
}
complete -o default -F _partita partita
"""
_ZSH: Final = r"""#compdef partita
# partita completion zsh > "${fpath[1]}/_partita"
_partita() {
  local -a found
  found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  [[ -n "${found[1]}" ]] && compadd -- "${found[@]}" || _files
}
if [ "$funcstack[1]" = "_partita" ]; then _partita "$@"; else compdef _partita partita; fi
"""
_FISH: Final = r"""# partita completion fish > ~/.config/fish/completions/partita.fish
function __partita_words
  partita __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c partita -f -a '(__partita_words)'
"""
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
FindNoun = Callable[[str], CommandNoun | None]


def _add_shell(parser: Any) -> None:
    parser.add_argument("shell", choices=sorted(SCRIPTS), metavar="bash|fish|zsh")


def print_script(session: CommandSession) -> int:
    say(SCRIPTS[session.options.shell].rstrip("\n"))
    return ExitCode.OK


COMPLETION: Final = CommandNoun(
    name="completion",
    text="Print what completes `partita` in a shell.",
    verbs=(
        CommandVerb(
            name="",
            text="print the script that completes commands, options and ids in a shell",
            run=print_script,
            add_arguments=_add_shell,
            formats=(),
        ),
    ),
    examples="""\
  source <(partita completion bash)
  partita completion zsh > "${fpath[1]}/_partita"
  partita completion fish > ~/.config/fish/completions/partita.fish""",
)


def complete(words: Sequence[str], nouns: Mapping[str, str], find_noun: FindNoun) -> list[str]:
    """Return what the last of the words may become; empty where the server cannot be asked.

    `nouns` has every command with its text.
    """
    *before, current = words or [""]
    if not before:
        return _beginning(nouns, current)
    noun, rest = find_noun(before[0]), before[1:]
    if noun is None:
        return []
    verb = noun.find("")
    if verb is None and not rest:
        return _beginning(noun.names, current)
    if verb is None:
        verb, rest = noun.find(rest[0]), rest[1:]
    return [] if verb is None else _complete_verb(noun, verb, rest, current)


def _complete_verb(
    noun: CommandNoun, verb: CommandVerb, before: Sequence[str], current: str
) -> list[str]:
    try:
        found = [*_values(noun, verb, before, current)]
    except ClientError:
        return []
    return [printable(each) for each in _beginning(found, current)]


def _beginning(names: Iterable[str], current: str) -> list[str]:
    return [name for name in names if name.startswith(current)]


def _values(
    noun: CommandNoun, verb: CommandVerb, before: Sequence[str], current: str
) -> Iterator[str]:
    """Yield the options, or the values of the option or argument that comes next."""
    parser = verb_parser(noun, verb)
    options = {name: each for each in parser._actions for name in each.option_strings}  # noqa: SLF001 - argparse tells it nowhere else
    positional = [each for each in parser._actions if not each.option_strings]  # noqa: SLF001
    given, count, awaited = _read_words(options, positional, before)
    name, equals, _ = current.partition("=")
    if awaited is None and equals and name in options:
        yield from (f"{name}={each}" for each in _values_of(options[name], noun, verb, given))
        return
    if awaited is None and current.startswith("-"):
        yield from sorted(name for name in options if name.startswith("--"))
        return
    if awaited is None and count < len(positional):
        awaited = positional[count]
    if awaited is not None:
        yield from _values_of(awaited, noun, verb, given)


def _read_words(
    options: Mapping[str, argparse.Action],
    positional: Sequence[argparse.Action],
    before: Sequence[str],
) -> tuple[argparse.Namespace, int, argparse.Action | None]:
    """Return what is given, how many arguments, and the option whose value comes next."""
    given, typed, awaited = argparse.Namespace(), list[str](), None
    for word in before:
        name, equals, value = word.partition("=")
        if awaited is not None:
            setattr(given, awaited.dest, word)
            awaited = None
        elif equals and name in options:
            setattr(given, options[name].dest, value)
        elif word in options:
            awaited = options[word] if options[word].nargs is None else None
        else:
            typed.append(word)
    for action, word in zip(positional, typed, strict=False):
        setattr(given, action.dest, word)
    return given, len(typed), awaited


def _values_of(
    action: argparse.Action, noun: CommandNoun, verb: CommandVerb, given: argparse.Namespace
) -> Iterator[str]:
    if action.choices:
        yield from map(str, action.choices)
    elif action.dest in noun.live_values:
        yield from noun.live_values[action.dest](given)
    elif action.dest == "status":
        yield from (status.lower() for status in STATUSES)
    elif action.dest in ("context_name", "name"):
        yield from sorted(read_contexts().contexts)
    elif action.dest in _LIVE:
        choice = choose_server(given_server(given))
        with Client(
            choice.url, token=choice.token, ca_file=choice.ca_file, timeout_s=_PATIENCE_S
        ) as client:
            yield from _LIVE[action.dest](client, verb, given)


def _runs(client: Client, verb: CommandVerb, _given: argparse.Namespace) -> list[str]:
    active = ("Queued", "Booting", "Canceling") if verb.name == "cancel" else ()
    return [run["id"] for run in client.runs(status=active, limit=_MOST)]


def _suites(client: Client, verb: CommandVerb, _given: argparse.Namespace) -> list[str]:
    found = client.launch_options() if verb.name == "launch" else client.suites(limit=200)
    return [suite["id"] for suite in found]


def _profiles(client: Client, _verb: CommandVerb, given: argparse.Namespace) -> list[str]:
    suite: str = getattr(given, "suite", "")
    if not suite and hasattr(given, "run"):
        suite = client.run(given.run, parts=())["suiteId"]
    return [each["fileName"] for each in client.profiles(suite)["profiles"]] if suite else []


def _backends(client: Client, _verb: CommandVerb, _given: argparse.Namespace) -> list[str]:
    return sorted({each["id"] for suite in client.launch_options() for each in suite["backends"]})


def _steps(client: Client, _verb: CommandVerb, given: argparse.Namespace) -> list[str]:
    return [step["id"] for step in client.run(given.run, parts=("steps",))["steps"]]


def _artifacts(client: Client, _verb: CommandVerb, given: argparse.Namespace) -> list[str]:
    return [each["id"] for each in client.artifacts(given.run)]


def _environments(client: Client, _verb: CommandVerb, _given: argparse.Namespace) -> list[str]:
    return [each["sandboxId"] for each in client.environments()["sandboxes"]]


def _workers(client: Client, verb: CommandVerb, _given: argparse.Namespace) -> list[str]:
    known = ServerInstallation(client).agents()
    if verb.name in ("drain", "resume"):
        known = [each for each in known if ("draining" in each) == (verb.name == "resume")]
    return [each["agentId"] for each in known]


def _registries(client: Client, _verb: CommandVerb, _given: argparse.Namespace) -> list[str]:
    return [each["registryId"] for each in ServerInstallation(client).settings()[0]["registries"]]


def _surfaces(client: Client, _verb: CommandVerb, given: argparse.Namespace) -> list[str]:
    return [each["id"] for each in client.suite(given.suite).get("apiSurfaces", ())]


_LIVE: Final = {
    "run": _runs,
    "suite": _suites,
    "profile": _profiles,
    "backend": _backends,
    "source": _steps,
    "step": _steps,
    "artifact": _artifacts,
    "sandbox": _environments,
    "worker": _workers,
    "registry": _registries,
    "surface": _surfaces,
    "surfaceId": _surfaces,
}
