"""What a queued run or step waits for, in words for people.

Workspaces that the reader may not see have no name in them: they are "other workspaces".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from apps.executions.domain.place_queue import Wait, WaitKind

_MOST_NAMES: Final = 3
_MINUTE_S: Final = 60


def wait_phrase(
    wait: Wait,
    *,
    backend: str,
    workspace: str,
    names: Mapping[str, str],
    group_holder: str = "",
    what: str = "places",
) -> str:
    """Return what is waited for: `2 of 2 places of backend gpu are used by Team A`.

    `workspace` is that of who waits, `names` has those of the workspaces that the reader may see.
    """
    if wait.kind is WaitKind.GROUP:
        return f"{group_holder or 'a run'} of its concurrency group has not ended"
    if wait.kind is WaitKind.TURN:
        return ""
    of = {
        WaitKind.BACKEND: f"of backend {backend}",
        WaitKind.WORKSPACE: "of its workspace",
        WaitKind.TOTAL: "of this installation",
    }[wait.kind]
    used = sum(wait.used.values())
    text = f"{used} of {wait.limit} {what} {of} {'is' if wait.limit == 1 else 'are'} used"
    if wait.kind is WaitKind.WORKSPACE:
        return text
    return f"{text} by {_users(wait.used, workspace, names)}"


def _users(used: Mapping[str, int], workspace: str, names: Mapping[str, str]) -> str:
    order = sorted(used, key=lambda each: (-used[each], names.get(each, "")))
    known = [each for each in order if each in names][:_MOST_NAMES]
    users = [names[each] for each in known]
    rest = [each for each in order if each not in known]
    if workspace in rest:
        users.append("its workspace")
        rest.remove(workspace)
    if rest:
        users.append("another workspace" if len(rest) == 1 else "other workspaces")
    return " and ".join(users) if len(users) < _MOST_NAMES else _join(users)


def _join(users: list[str]) -> str:
    return f"{', '.join(users[:-1])} and {users[-1]}"


def start_phrase(earliest_s: float, latest_s: float) -> str:
    """Return when a run is expected to start: `in 2 to 5 min`."""
    if latest_s < _MINUTE_S:
        return f"in less than {max(5, round(latest_s / 5 + 0.5) * 5)} s"
    low, high = int(earliest_s // _MINUTE_S), round(latest_s / _MINUTE_S + 0.5)
    if high > 2 * _MINUTE_S:
        hours = timedelta(seconds=latest_s) / timedelta(hours=1)
        return f"in {low / _MINUTE_S:.0f} to {hours:.0f} h"
    return f"in {low} to {high} min"
