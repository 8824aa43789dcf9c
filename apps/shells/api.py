"""Shells: programs that people run on a terminal inside the environment of a run.

A session is a row and two topics; who types and the runner never meet. Depends on executions and
streams; the runner's side is `apps.workers.shells`.
"""

from __future__ import annotations

from apps.shells.conf import idle_s
from apps.shells.domain.pace import Pace, Silence
from apps.shells.domain.records import MOST_BYTES, MOST_UNREAD, input_topic
from apps.shells.domain.states import EndCode
from apps.shells.domain.terminal_filter import TerminalFilter
from apps.shells.services.endings import (
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
from apps.shells.services.sessions import SHELL_NUDGE, shell_offer
