"""Shells: programs that people run on a terminal inside the environment of a run.

A session is a row and two topics; who types and the runner never meet. Depends on executions and
streams; the runner's side is `apps.workers.shells`.
"""

from __future__ import annotations

from apps.shells.conf import idle_s
from apps.shells.domain.documents import ShellDocument, ShellList
from apps.shells.domain.errors import ShellNotFound, ShellRefused, ShellsOff, TooManyShells
from apps.shells.domain.pace import Pace, Silence
from apps.shells.domain.records import (
    MOST_BYTES,
    MOST_UNREAD,
    TerminalSize,
    input_topic,
    output_bytes,
    output_topic,
    terminal_size,
)
from apps.shells.domain.states import EndCode, ShellState
from apps.shells.domain.terminal_filter import TerminalFilter
from apps.shells.selectors import shells_of_run
from apps.shells.services.clients import (
    JoinedShell,
    count_untaken,
    describe_shell,
    join_shell,
    keep_attached,
    type_into,
)
from apps.shells.services.endings import (
    COMMAND_LINE,
    SessionEnd,
    end_abandoned,
    remove_old_sessions,
    remove_sessions_of_deleted_runs,
)
from apps.shells.services.holders import (
    HeldShell,
    Pulse,
    can_still_enter,
    end_earlier,
    end_held,
    forget_input,
    forget_output,
    mark_open,
    read_input,
    read_pulse,
    renew_session,
    take_sessions,
    write_output,
)
from apps.shells.services.sessions import (
    SHELL_NUDGE,
    ShellOffer,
    ShellWish,
    end_shell,
    open_shell,
    shell_offer,
)

__all__ = [
    "COMMAND_LINE",
    "MOST_BYTES",
    "MOST_UNREAD",
    "SHELL_NUDGE",
    "EndCode",
    "HeldShell",
    "JoinedShell",
    "Pace",
    "Pulse",
    "SessionEnd",
    "ShellDocument",
    "ShellList",
    "ShellNotFound",
    "ShellOffer",
    "ShellRefused",
    "ShellState",
    "ShellWish",
    "ShellsOff",
    "Silence",
    "TerminalFilter",
    "TerminalSize",
    "TooManyShells",
    "can_still_enter",
    "count_untaken",
    "describe_shell",
    "end_abandoned",
    "end_earlier",
    "end_held",
    "end_shell",
    "forget_input",
    "forget_output",
    "idle_s",
    "input_topic",
    "join_shell",
    "keep_attached",
    "mark_open",
    "open_shell",
    "output_bytes",
    "output_topic",
    "read_input",
    "read_pulse",
    "remove_old_sessions",
    "remove_sessions_of_deleted_runs",
    "renew_session",
    "shell_offer",
    "shells_of_run",
    "take_sessions",
    "terminal_size",
    "type_into",
    "write_output",
]
