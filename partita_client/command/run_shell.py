"""`run shell`: a terminal inside a step of a run."""

from __future__ import annotations

import argparse
import importlib
from argparse import ArgumentTypeError
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NoReturn

from partita_client.client import Client
from partita_client.command.output import note, printable
from partita_client.command.parser import CommandSession, CommandVerb, add_run
from partita_client.documents import RunShell
from partita_client.errors import ApiProblem, BadConfiguration, ClientError
from partita_client.exit_codes import ExitCode

if TYPE_CHECKING:  # it needs a terminal of Unix
    from partita_client.command.terminal.terminal_session import TerminalSession

_EXITED: Final = "exited"
_LEAVING_S: Final = 5.0
_SECRETS: Final = "It sees the secrets of the step as the step had them; output is not masked."
_DESCRIPTION: Final = f"""\
Open a shell in a service that runs, or in any step of a run whose environment is kept
(`partita run launch … --keep 30m`): a step that has ended opens as a copy, with the files that it
left. {_SECRETS}
Keys go to the program, Ctrl-C as well; `~.` at the beginning of a line leaves. Input may be a
pipe. After a cut of the connection it goes on within 60 s; meanwhile `~.` and Ctrl-C leave. The
exit code is that of the program, 129 or 143 where SIGHUP or SIGTERM ended the command."""


def _add_shell(parser: Any) -> None:
    parser.description = _DESCRIPTION
    add_run(parser)
    parser.add_argument("step", metavar="STEP")
    program = parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND",
        help="a program with its arguments instead of a shell",
    )
    program.required = False  # argparse would name it where STEP is missing
    parser.add_argument("-o", "--output", type=_refuse_format, help=argparse.SUPPRESS)


def _refuse_format(_text: str) -> NoReturn:
    raise ArgumentTypeError("a shell has no document to print; leave it out")


def enter_step(session: CommandSession) -> int:
    """Open a shell, pass bytes until it ends, and return the exit code of the program."""
    options = session.options
    command = _program_of(options.command)
    try:
        terminals = importlib.import_module("partita_client.command.terminal.local_terminal")
        sessions = importlib.import_module("partita_client.command.terminal.terminal_session")
    except ImportError as error:  # termios
        raise BadConfiguration(
            f"`partita run shell` needs a terminal of Unix, and here is no {error.name}",
            advice="open it on the page of the run (Shell), or in WSL",
        ) from None
    terminal = terminals.LocalTerminal()
    size = terminal.size()
    shell = session.client.open_shell(
        options.run, options.step, command=command, columns=size.columns, rows=size.lines
    )
    if terminal.is_typed:
        note(f"{_SECRETS} ~. leaves.")
    terminal_session = sessions.TerminalSession(
        client=session.client, terminal=terminal, shell=shell
    )
    try:
        ended = terminal_session.run()
    except terminals.HungUp as hung_up:
        end = _leave_shell(session.client, terminal_session)
        with suppress(OSError):  # the terminal may be gone
            note(f"ended by {hung_up.signal_name}: {end}")
        return int(hung_up.exit_code)
    except KeyboardInterrupt:
        note(f"left: {_leave_shell(session.client, terminal_session)}")
        raise
    except Exception:  # also where the reader of the output has gone: the program must not go on
        _end_shell(session.client, shell)
        raise
    if ended is None:
        note(f"left: {_leave_shell(session.client, terminal_session)}")
        return ExitCode.OK
    return report_end(ended)


def _leave_shell(client: Client, terminal_session: TerminalSession) -> str:
    """End the shell that is left, and return what becomes of it.

    A server that is away is not asked: who leaves then need not wait for it.
    """
    shell, away = terminal_session.shell, "the server is away"
    if terminal_session.is_connected:
        error = _end_shell(client, shell)
        if error is None:
            return "the shell has ended"
        if isinstance(error, ApiProblem):
            away = f"the server did not end the shell ({printable(error.detail)})"
    place = f"{shell['executionId']} {shell['stepId']}"
    return (
        f"{away}, and ends the shell after a minute without a connection; "
        f"open another one: partita run shell {printable(place)}"
    )


def _end_shell(client: Client, shell: RunShell) -> ClientError | None:
    """End a shell; return why the server did not do so soon. It ends by itself within a minute."""
    client.transport.limit_time(_LEAVING_S)
    try:
        client.end_shell(shell["executionId"], shell["shellId"], repeats=False)
    except ClientError as error:
        is_gone = isinstance(error, ApiProblem) and error.status == HTTPStatus.NOT_FOUND
        return None if is_gone else error
    return None


def _program_of(words: list[str]) -> list[str]:
    """Return the program and its arguments, without the `--` before them."""
    words = words[1:] if words[:1] == ["--"] else words
    if words and words[0].startswith("-"):
        raise BadConfiguration(f"{words[0]!r} is not a program: options come before RUN")
    return words


def report_end(shell: RunShell) -> int:
    """Say why a shell has ended unless its program did; return the exit code."""
    end = shell.get("end")
    if end is None or end["code"] == _EXITED:
        return shell.get("exitCode", ExitCode.ERROR)
    note(f"the shell has ended: {printable(end['detail'])}")
    return shell.get("exitCode") or ExitCode.UNAVAILABLE


VERBS: Final = (
    CommandVerb(
        name="shell",
        text="open a terminal in a step",
        run=enter_step,
        add_arguments=_add_shell,
        formats=(),
    ),
)
