"""Shells: programs that people run on a terminal inside the environment of a run.

A session is a row and two topics; who types and the runner never meet. Depends on executions and
streams; the runner's side is `apps.workers.shells`.
"""

from __future__ import annotations

from apps.shells.conf import idle_s
from apps.shells.domain.documents import ShellDocument
from apps.shells.domain.pace import Pace, Silence
from apps.shells.domain.records import (
    MOST_BYTES,
    MOST_UNREAD,
    TerminalSize,
    input_topic,
    output_bytes,
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
