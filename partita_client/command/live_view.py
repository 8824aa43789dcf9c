"""The live view of a run: its log lines, and the state of its steps below them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from partita_client import conf
from partita_client.client import ENDED, Client
from partita_client.command.live_screen import LiveScreen, open_screen
from partita_client.command.live_steps import WatchedRun
from partita_client.command.parser import CommandSession
from partita_client.errors import ClientError

if TYPE_CHECKING:  # dictionaries by another name: a command does without
    from partita_client.documents import RunReport

_NOT_CI: Final = ("", "0", "false")
_NO_CURSOR: Final = ("", "dumb")
WriteLine = Callable[[str], None]


@contextmanager
def open_live_view(
    session: CommandSession, run: RunReport, write: WriteLine
) -> Iterator[WriteLine]:
    """Yield what writes a log line: above a live table of the steps, or else `write` at once."""
    if run["status"] in ENDED or not _has_table(session):
        yield lambda text: _write_at_once(write, text)
        return
    watched = WatchedRun(run)
    sys.stdout.flush()
    with open_screen(sys.stdout.fileno(), sys.stdout.encoding, watched.rows) as screen:
        reader = threading.Thread(
            target=_read_events, args=(session, run["id"], watched, screen), daemon=True
        )
        reader.start()
        with session.notes_to(screen.add_line):
            yield screen.add_line


def _write_at_once(write: WriteLine, text: str) -> None:
    write(text)
    sys.stdout.flush()


def _has_table(session: CommandSession) -> bool:
    """Return whether a person looks: a terminal that can move its cursor, and no job of CI."""
    return (
        session.is_for_people
        and not getattr(session.options, "plain", False)
        and sys.stdout.isatty()
        and conf.variable("TERM") not in _NO_CURSOR
        and conf.variable("CI").lower() in _NOT_CI
    )


def _read_events(
    session: CommandSession, run_id: str, watched: WatchedRun, screen: LiveScreen
) -> None:
    """Bring the steps up to date until the run is over.

    The log has a connection of its own, and what it meets is said there: without the events there
    is no table, and the lines go on.
    """
    choice = session.choice
    token = session.client.transport.token
    try:
        with Client(
            choice.url, token=token, ca_file=choice.ca_file, new_token=choice.new_token
        ) as client:
            client.transport.has_answered = session.client.transport.has_answered
            for frame in client.events(run_id):
                if frame.kind == "gap":
                    watched.skip_to(int(frame.data["to"]))
                elif not frame.kind:
                    watched.apply(frame.data)
                screen.redraw()
    except (ClientError, LookupError, TypeError, ValueError, AttributeError):
        screen.remove_rows()
