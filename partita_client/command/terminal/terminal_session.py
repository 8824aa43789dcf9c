"""A terminal of this machine and a shell of a run, through cuts of the connection between them.

Output has numbers: after a cut the server sends what comes after the last one, so none is lost and
none is shown twice. What is typed has none. It is never sent twice, as it might run twice; a ping
behind each message tells what the server has, and the rest is counted after a cut. What may block,
as a connection that is made anew does, is done beside the keys: a person can leave at any time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from partita_client.client import Client
from partita_client.command.output import printable
from partita_client.command.terminal.background_call import BackgroundCall
from partita_client.command.terminal.local_terminal import READ_MAX, LocalTerminal
from partita_client.command.terminal.terminal_modes import TypedEscapes
from partita_client.documents import RunShell
from partita_client.errors import (
    ApiProblem,
    ClientError,
    NoConnection,
    NotPartita,
    advice_for,
)
from partita_client.patience import require_passing
from partita_client.transport import pause_s
from partita_client.websocket import SocketClosed, WebSocket, open_websocket
from partita_client.websocket_frames import Opcode, SocketMessage

IDLE_S: Final = 45.0  # the server says something every 15 s
AWAY_S: Final = 90.0  # the shell itself ends after 60 s without a connection
UNREAD_S: Final = 15.0  # then a connection is made anew, as the server misses its pongs after 40 s
_Result = TypeVar("_Result")
_WAIT_S: Final = 1.0
_SILENT_S: Final = 1.0  # an absence that is shorter is not told
_NUMBER_BYTES: Final = 8
_UNCONFIRMED_MAX: Final = 2 * READ_MAX
_UNWRITTEN_MAX: Final = 2**20  # output that waits for its reader, then no more of it is read
_UNWRITTEN_MOST: Final = 16 * 2**20  # the same while a pong is awaited, which comes behind output
_HELD_WHILE_AWAY: Final = 2**20  # keys that are typed beyond that are lost, with a bell
_HELD_MOST: Final = 2 * _HELD_WHILE_AWAY
_FAILURES_BEFORE_A_WORD: Final = 2
_INTERRUPT: Final = b"\x03"
_REFUSED: Final = 4000  # + the status of the problem
_STATUSES: Final = range(400, 600)
_AGAINST_THE_RULES: Final = (1002, 1003, 1007, 1008, 1009, 1010)


class InputInDoubt(ClientError):
    """The connection was cut while input of a pipe was on its way."""

    exit_code = NoConnection.exit_code


class PersonLeft(Exception):
    """The person has typed `~.`."""


@dataclass(slots=True)
class SentInput:
    """How many bytes were typed into one connection, and how many of them the server has."""

    sent: int = 0
    confirmed: int = 0

    @property
    def in_doubt(self) -> int:
        return self.sent - self.confirmed


@dataclass(slots=True, kw_only=True)
class TerminalSession:
    """Passes bytes between a terminal and an open shell until that ends, or the person leaves.

    While nobody takes the output (`… | less`), no more of it is read. The server keeps it, and the
    program waits; as pings are not read either, the connection is made anew every `UNREAD_S`.

    Keys that are typed without a connection are kept and sent later. Once a note has said that
    there is none, Ctrl-C leaves too: no program gets it.
    """

    client: Client
    terminal: LocalTerminal
    shell: RunShell
    _escapes: TypedEscapes = field(default_factory=TypedEscapes, init=False)
    _input: SentInput = field(default_factory=SentInput, init=False)
    _held: bytes = field(default=b"", init=False)  # typed, and not sent yet
    _last_id: int = field(default=0, init=False)
    _ended: RunShell | None = field(default=None, init=False)
    _heard_at: float = field(default=0.0, init=False)
    _failures: int = field(default=0, init=False)
    _reason: str = field(default="", init=False)  # of the last failure
    _away_since: float = field(default=0.0, init=False)
    _is_connected: bool = field(default=False, init=False)
    _has_told: bool = field(default=False, init=False)  # that there is no connection
    _has_lost_keys: bool = field(default=False, init=False)  # and said so

    def run(self) -> RunShell | None:
        """Return the shell as it ended, None where the person left.

        Raise ClientError, HungUp, and KeyboardInterrupt for a Ctrl-C without a connection.
        """
        self._away_since = time.monotonic()
        with self.terminal.raw_mode():
            try:
                ended = self._stay_connected()
            except PersonLeft:
                return None
            except ClientError:
                self.terminal.drain()
                raise
            self.terminal.drain()
            return ended

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, or was one when the session ended."""
        return self._is_connected

    def _stay_connected(self) -> RunShell:
        while True:
            self._is_connected = False
            try:
                with self._open_socket() as websocket:
                    self._is_connected = True
                    if self._pass_bytes(websocket):
                        return self.shell
                    continue
            except (ApiProblem, NoConnection) as error:
                reason = self._explain_cut(error)
            self._count_failure(reason)

    @contextmanager
    def _open_socket(self) -> Iterator[WebSocket]:
        """Yield an open WebSocket; raise ClientError, PersonLeft."""
        query = {"after": self._last_id}

        def open_it() -> tuple[WebSocket, ExitStack]:
            with ExitStack() as stack:
                opened = open_websocket(self.client.transport, self.shell["socket"], query)
                return stack.enter_context(opened), stack.pop_all()

        websocket, stack = self._wait_for(open_it, undo=lambda found: found[1].close())
        with stack:
            yield websocket

    def _pass_bytes(self, websocket: WebSocket) -> bool:
        """Pass bytes until the shell ends; raise PersonLeft.

        Return False where the connection is to be made anew, as it was not read for `UNREAD_S`.
        """
        self._input = SentInput()
        self._heard_at = time.monotonic()
        while True:
            websocket.flush()
            self._send_input(websocket)
            connection = websocket if self._may_read else None
            if connection is not None:
                if self._take_messages(connection.receive()):
                    return True
                self._check_silence()
            elif time.monotonic() - self._heard_at > UNREAD_S:
                if self._input.in_doubt:
                    raise NoConnection("nobody takes the output")
                return False
            self._hold(self.terminal.wait(_WAIT_S, for_input=self._may_type, connection=connection))

    @property
    def _may_read(self) -> bool:
        """Whether there is room for output."""
        most = _UNWRITTEN_MOST if self._input.in_doubt else _UNWRITTEN_MAX
        return self.terminal.unwritten < most

    @property
    def _may_type(self) -> bool:
        """Whether to read input: keys, as `~.` may be among them, a pipe where it can go.

        Keys wait in the terminal where very many are held, more than are kept without a connection.
        """
        if self.terminal.is_typed:
            return len(self._held) < _HELD_MOST
        is_open = self.shell["state"] == "open"
        return is_open and not self._held and self._input.in_doubt < _UNCONFIRMED_MAX

    def _hold(self, typed: bytes) -> None:
        """Keep what was typed until it can be sent; raise PersonLeft."""
        if self.terminal.is_typed:
            typed, leaves = self._escapes.feed(typed)
            if leaves:
                raise PersonLeft
        self._held += typed

    def _send_input(self, websocket: WebSocket) -> None:
        if self.shell["state"] != "open":
            return
        if (size := self.terminal.take_new_size()) is not None:
            resize = {"type": "resize", "columns": size.columns, "rows": size.lines}
            websocket.send(Opcode.TEXT, json.dumps(resize).encode())
        may_send = self.terminal.is_typed or self.terminal.unwritten < _UNWRITTEN_MAX
        if self._held and may_send and self._input.in_doubt < _UNCONFIRMED_MAX:
            piece, self._held = self._held[:READ_MAX], self._held[READ_MAX:]
            self._input.sent += len(piece)
            websocket.send(Opcode.BINARY, piece)
            websocket.send(Opcode.PING, self._input.sent.to_bytes(_NUMBER_BYTES))

    def _take_messages(self, messages: Sequence[SocketMessage]) -> bool:
        """Show output and note the rest; return whether the shell has ended."""
        if messages:
            self._note_return()
        for message in messages:
            self._take_message(message)
            if self._ended is not None:
                return True
        if messages:
            self._heard_at = time.monotonic()
        return False

    def _take_message(self, message: SocketMessage) -> None:
        if message.opcode == Opcode.BINARY:
            number = int.from_bytes(message.content[:_NUMBER_BYTES])
            if number > self._last_id:
                self.terminal.show(message.content[_NUMBER_BYTES:])
                self._last_id = number
        elif message.opcode == Opcode.PONG:
            if len(message.content) == _NUMBER_BYTES:
                self._input.confirmed = int.from_bytes(message.content)
        else:
            self._take_text(_document_in(message))

    def _take_text(self, document: Any) -> None:
        kind = document.get("type")
        if kind == "gap":
            self._last_id = max(self._last_id, int(document["to"]))
            self.terminal.note("some output is no longer stored, and is left out here")
        if kind not in ("session", "end"):
            return
        before, self.shell = self.shell, document["session"]
        notice = self.shell.get("notice")
        if notice and before["state"] != self.shell["state"] == "open" and self.terminal.is_typed:
            self.terminal.note(printable(notice))
        if kind == "end":
            self._ended = self.shell

    def _note_return(self) -> None:
        """Note that the server answers again, which tells where Ctrl-C goes from now on."""
        self._failures, self._reason = 0, ""
        if self._has_told:
            self.terminal.note("connected")
        self._has_told = self._has_lost_keys = False

    def _check_silence(self) -> None:
        if time.monotonic() - self._heard_at > IDLE_S:
            raise NoConnection(f"{self.client.url} has been silent for {IDLE_S:.0f} s")

    # after a cut

    def _explain_cut(self, error: ApiProblem | NoConnection) -> ClientError:
        """Return why the connection ended if it may come back; raise what is final."""
        self._is_connected = False
        if isinstance(error, SocketClosed):
            self._require_reopening(error)
        reason = require_passing(error)
        if not self._failures:
            self._away_since = time.monotonic()
        in_doubt, self._input = self._input.in_doubt, SentInput()
        if in_doubt and not self.terminal.is_typed:
            raise InputInDoubt(
                f"the connection was cut, and of the input {in_doubt} bytes may not have arrived; "
                "the shell ends, as what follows could be meant for another state",
                advice="look at what it did, then start again",
            )
        if in_doubt:
            self.terminal.note(
                f"the connection was cut: the last {in_doubt} bytes that you typed may not have "
                "arrived; they are not sent again"
            )
        return reason

    def _require_reopening(self, closed: SocketClosed) -> None:
        """Raise what a close code means, unless the server may let this client in again."""
        if closed.code in _AGAINST_THE_RULES:
            raise NotPartita(
                f"{self.client.url} refused what this client sent ({closed.code} {closed.reason})",
                advice="compare both: partita version",
            )
        status = closed.code - _REFUSED
        if self.client.transport.take_new_token(status) or not closed.reason:
            return  # a credential that has ended is named when it is used again
        if status in _STATUSES:
            with suppress(NoConnection):  # a problem document has more words
                self._wait_for(lambda: self.client.shells(self.shell["executionId"]))
            require_passing(
                ApiProblem(
                    status=status,
                    code=closed.reason,
                    detail=f"{self.client.url} refuses this shell from now on",
                    advice=advice_for(closed.reason, self.client.url),
                )
            )

    def _count_failure(self, reason: ClientError) -> None:
        """Wait for the server; raise what lasts for too long, and PersonLeft."""
        if time.monotonic() - self._away_since > AWAY_S:
            raise reason
        self._failures += 1
        self._reason = str(reason)
        if self._failures == _FAILURES_BEFORE_A_WORD:
            self._tell()
        until = time.monotonic() + pause_s(self._failures - 1)
        while (left_s := until - time.monotonic()) > 0:
            self._wait_without_connection(left_s)

    def _wait_for(
        self,
        call: Callable[[], _Result],
        *,
        undo: Callable[[_Result], object] = lambda _result: None,
    ) -> _Result:
        """Return what a call returns that may block, and read keys meanwhile; raise PersonLeft."""
        told_at = time.monotonic() + _SILENT_S
        with closing(BackgroundCall(call, undo=undo)) as background:
            while not background.has_ended:
                left_s = max(0.0, told_at - time.monotonic())
                if not left_s:
                    self._tell()
                self._wait_without_connection(left_s or _WAIT_S, background)
            return background.take_result()

    def _tell(self) -> None:
        """Tell once in an absence that there is no connection, and how to leave."""
        if self._has_told:
            return
        self._has_told = True
        why = printable(self._reason) or f"{self.client.url} has not answered yet"
        does = "reconnecting, no output will be missed" if self._heard_at else "connecting"
        leave = " (~. or Ctrl-C leaves)" if self.terminal.is_typed else ""
        self.terminal.note(f"{why}; {does}{leave}")

    def _wait_without_connection(
        self, within_s: float, background: BackgroundCall[Any] | None = None
    ) -> None:
        """Wait for keys, and keep them; raise PersonLeft, KeyboardInterrupt."""
        typed = self.terminal.wait(
            within_s, for_input=self.terminal.is_typed, connection=background
        )
        if self._has_told and _INTERRUPT in typed:
            raise KeyboardInterrupt
        most = max(len(self._held), _HELD_WHILE_AWAY)
        self._hold(typed)
        if len(self._held) > most:
            self._held = self._held[:most]
            self.terminal.ring()
            if not self._has_lost_keys:
                self._has_lost_keys = True
                self.terminal.note("too much was typed to keep it until then: the rest is lost")


def _document_in(message: SocketMessage) -> Any:
    try:
        return dict(json.loads(message.text))
    except (ValueError, TypeError, RecursionError):
        raise NotPartita("the server sent a text that is not a JSON object") from None
