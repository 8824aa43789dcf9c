"""The program `partita`: client verbs by HTTP; what works beside the store is left to its half."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, cast

from partita_client.command.halves import StoreCommand, choose_half
from partita_client.command.output import note, printable_lines, say
from partita_client.command.parser import (
    LOCAL_OPTION,
    CommandNoun,
    CommandSession,
    CommandVerb,
    closest_names,
    nearest_name,
    parse_verb,
    show_error,
)
from partita_client.errors import ApiProblem, ClientError, NotPartita
from partita_client.exit_codes import ExitCode
from partita_client.release import VERSION
from partita_client.standard_streams import end_output, prepare_streams

_HELP: Final = ("help", "--help", "-h")
_VERSION: Final = ("--version", "-V")
_MISSING_MAX: Final = 200
_MORE_LETTERS: Final = 3  # no misspelling: `run_worker` is not `worker`
# noun → the module and the name of its CommandNoun; each is loaded when it is typed
NOUNS: Final = {
    "run": "runs:NOUN",
    "suite": "resources:SUITE",
    "profile": "resources:PROFILE",
    "environment": "resources:ENVIRONMENT",
    "catalog": "resources:CATALOG",
    "sync": "sync:NOUN",
    "mock": "mocks:NOUN",
    "settings": "settings:NOUN",
    "worker": "workers:NOUN",
    "login": "sign_in:LOGIN",
    "logout": "sign_in:LOGOUT",
    "whoami": "sign_in:WHOAMI",
    "context": "sign_in:CONTEXT",
    "doctor": "diagnosis:DOCTOR",
    "completion": "completion:COMPLETION",
    "version": "versions:NOUN",
}
OVERVIEW: Final = """\
usage: partita COMMAND …

Launch packaged test environments, on this machine or on a server.

  partita up                           start Partita here, with the suite hello
  partita login partita.example.com    or use a server
  partita suite list                   what can be launched
  partita run launch shop --watch      launch it and see it live
  partita run why run-0123456789ab     what failed, why, and what changed
  partita run list --status failed     also: logs, rerun, cancel, download, …
  partita doctor                       is the server well, and am I signed in?

commands: run, suite, profile, environment, catalog, mock, settings, worker,
  sync, login, context, whoami, doctor, completion, …; `partita COMMAND --help`
  has options and examples, `partita admin` lists what works beside the store"""
_MISTAKES: Final = {
    **dict.fromkeys(("launch", "start", "exec"), "partita run launch SUITE --watch"),
    **dict.fromkeys(("list", "ls", "ps", "status", "runs", "executions"), "partita run list"),
    **dict.fromkeys(("get", "describe", "show"), "partita run show RUN, or partita run list"),
    **dict.fromkeys(("use", "switch"), "partita context use NAME"),
    **dict.fromkeys(("logs", "log", "tail"), "partita run logs RUN -f"),
    **dict.fromkeys(("why", "explain"), "partita run why RUN"),
    **dict.fromkeys(("rerun", "retry"), "partita run rerun RUN --failed"),
    **dict.fromkeys(("cancel", "stop", "kill"), "partita run cancel RUN"),
    **dict.fromkeys(("watch", "attach"), "partita run watch RUN"),
    **dict.fromkeys(("suites", "tests"), "partita suite list"),
    **dict.fromkeys(("profiles",), "partita profile list SUITE"),
    **dict.fromkeys(("environments", "env", "sandbox"), "partita environment list"),
    **dict.fromkeys(("auth", "signin", "sign-in"), "partita login URL"),
    **dict.fromkeys(("config", "contexts", "ctx"), "partita context list"),
    **dict.fromkeys(("search", "pull"), "partita catalog search TEXT, or partita suite pull REF"),
    **dict.fromkeys(("workers", "runners", "agents", "agent", "nodes"), "partita worker list"),
    "-v": "partita --version",
    "shell": "partita run shell RUN STEP (Django's own: partita admin shell)",
    **dict.fromkeys(("mocks",), "partita mock state SUITE, or partita mock journal SUITE"),
    **dict.fromkeys(("registry", "registries"), "partita settings registries test"),
    **dict.fromkeys(("validate", "lint", "new"), "partita suite validate|lint|new …"),
}


OwnCommand = Callable[[Sequence[str]], "int | StoreCommand"]


def run_words(words: Sequence[str], *, has_store: bool = True) -> int | StoreCommand:
    """Run a typed command and return its exit code, or what the other half has to run.

    `has_store`: whether that half is installed, to which verbs of both go without a server.
    """
    prepare_streams()
    try:
        try:
            return _run(words, has_store=has_store)
        finally:
            sys.stdout.flush()  # what cannot be written is said here, and not at the exit
    except ClientError as error:
        return show_error(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except OSError as error:
        return end_output(error)


def _run(words: Sequence[str], *, has_store: bool) -> int | StoreCommand:
    first, rest = (words[0], words[1:]) if words else ("help", [])
    own: dict[str, OwnCommand] = {"__complete": _complete}
    own |= dict.fromkeys(_VERSION, _show_version) | dict.fromkeys(_HELP, _help)
    if first in _HELP and rest and rest[0] in NOUNS:
        first, rest = rest[0], [*rest[1:], "--help"]
    if first in own:
        return own[first](rest)
    if (noun := find_noun(first)) is not None:
        return _run_noun(noun, rest, has_store=has_store)
    return StoreCommand(words=rest) if first == "admin" else _leave(words)


def _show_version(_words: Sequence[str]) -> int:
    say(f"partita {VERSION}")
    return ExitCode.OK


def find_noun(name: str) -> CommandNoun | None:
    """Return a noun of the client, None for any other word."""
    if name not in NOUNS:
        return None
    module, _, attribute = NOUNS[name].partition(":")
    found = getattr(importlib.import_module(f"partita_client.command.{module}"), attribute)
    return cast("CommandNoun", found)


def _help(words: Sequence[str]) -> int | StoreCommand:
    if not words:
        say(OVERVIEW)
        return ExitCode.OK
    return StoreCommand(words=["help", *words])


def _leave(words: Sequence[str]) -> int | StoreCommand:
    """Leave a command to the other half, unless it is a mistake."""
    word = words[0]
    if meant := _MISTAKES.get(word):
        note(f"error: there is no command {word!r}")
        note(f"next: {meant}")
        return ExitCode.USAGE
    if word.startswith("-"):
        return _refuse_word("option", word, nearest_name(word, ("--help", "--version")))
    if close := nearest_noun(word):
        return _refuse_word("command", word, close)
    return StoreCommand(words=words)


def nearest_noun(word: str) -> str:
    """Return the noun that was most likely meant, empty where it may be another command."""
    close = closest_names(word.lower(), list(NOUNS), cutoff=0.7)
    return next((name for name in close if abs(len(name) - len(word)) < _MORE_LETTERS), "")


def _refuse_word(kind: str, word: str, close: str) -> int:
    hint = f"; did you mean `partita {close}`?" if close else ""
    note(f"error: there is no {kind} {word!r}{hint}")
    note("next: partita --help")
    return ExitCode.USAGE


def _run_noun(noun: CommandNoun, words: Sequence[str], *, has_store: bool) -> int | StoreCommand:
    if (only := noun.find("")) is not None:
        return _run_verb(noun, only, words)
    chosen = (noun.choose_half or choose_half)(noun, words, has_store=has_store)
    if isinstance(chosen, StoreCommand):
        return chosen
    if chosen is None:
        return _refuse_verb(noun, words[0] if words else "")
    return _run_verb(noun, chosen, words[1:])


def _refuse_verb(noun: CommandNoun, name: str) -> int:
    if name in _HELP:
        say(noun.help)
        return ExitCode.OK
    known = noun.names
    if not name or name.startswith("-"):
        note(f"partita {noun.name}: name a verb: {', '.join(known)}")
    else:
        close = nearest_name(name, known)
        hint = f"; did you mean `partita {noun.name} {close}`?" if close else ""
        note(f"error: partita {noun.name} has no verb {name!r}{hint}")
        note(f"known: {', '.join(known)}")
    note(f"next: partita {noun.name} --help")
    return ExitCode.USAGE


def _run_verb(noun: CommandNoun, verb: CommandVerb, words: Sequence[str]) -> int:
    session = CommandSession(options=parse_verb(noun, verb, words))
    try:
        code = _run_filtered(verb, session) if session.jq is not None else verb.run(session)
    except ApiProblem as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            error.advice = _sign_in_advice(noun, verb, session, error.advice)
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if not session.asked_url:
            raise  # a mistake of the client itself
        raise _other_shape(session.asked_url, error) from error
    else:
        return code
    finally:
        session.close()


def _sign_in_advice(
    noun: CommandNoun, verb: CommandVerb, session: CommandSession, advice: str
) -> str:
    """Return what to do where a server does not know who asks, and why that server was asked."""
    if session.has_asked_an_up:
        return "start `up` again: it makes a new token when it starts"
    if session.origin:
        advice += f"; {session.origin} means this server"
    if noun.is_shared:
        advice += f"; without it: partita {noun.name} {verb.name} {LOCAL_OPTION}"
    return advice


def _other_shape(url: str, error: Exception) -> NotPartita:
    """Return what an answer means in which a verb did not find what it needs."""
    missing = f"no {error}" if isinstance(error, KeyError) else str(error)[:_MISSING_MAX]
    return NotPartita(
        f"{url} answered in another shape than this client knows ({missing}): it "
        "is not a Partita server, or one of another version",
        advice="compare both: partita version, and check the address: partita doctor",
    )


def _run_filtered(verb: CommandVerb, session: CommandSession) -> int:
    """Run a verb and print what `--jq` leaves of its document.

    The expression is checked first: a launch must not happen whose answer cannot be printed.
    """
    expression = session.jq or ""
    json_filter = importlib.import_module("partita_client.command.json_filter")
    json_filter.check_filter(expression)
    with contextlib.redirect_stdout(io.StringIO()) as document:
        code = verb.run(session)
    text = json_filter.filter_json(document.getvalue(), expression)
    sys.stdout.write(printable_lines(text) if sys.stdout.isatty() else text)
    return code


def _complete(words: Sequence[str]) -> int:
    """Print what the last word may become; a mistake on the way prints nothing."""
    module = importlib.import_module("partita_client.command.completion")
    others = ("up", "admin", "store", "help")
    for name in module.complete(words, dict.fromkeys([*NOUNS, *others], ""), find_noun):
        say(name)
    return ExitCode.OK
