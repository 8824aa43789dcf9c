"""A terminal inside a unit: what is asked for, and what a runtime that can open one gives back."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MARK: Final = "PARTITA_SHELL"  # in the environment of a shell and of all that it starts
TERMINAL: Final = "xterm-256color"
READ_LIMIT: Final = 64 * 1024
WRITE_S: Final = 30.0  # then a program that does not read its input is given up
SIZE_LIMIT: Final = 1000  # columns and rows
# kills, by the shell of a unit, what has the mark `$1`, what it started and its sessions
KILL_MARKED: Final = r"""
command -v tr >/dev/null && command -v sleep >/dev/null || exit 127
mark=$1
find_marked() {
    found=' ' sessions=' '
    for folder in /proc/[0-9]*; do
        case "
$(tr '\0' '\n' 2>/dev/null <"$folder/environ")
" in *"
$mark
"*) add "${folder#/proc/}" ;;
        esac
    done 2>/dev/null
    grows=yes
    while [ "$grows" ]; do
        grows=
        for folder in /proc/[0-9]*; do
            case $found in *" ${folder#/proc/} "*) continue ;; esac
            read_stat "${folder#/proc/}" || continue
            case $found in *" $parent "*) add "${folder#/proc/}" && grows=yes && continue ;; esac
            case $sessions in *" $session "*) add "${folder#/proc/}" && grows=yes ;; esac
        done
    done
    [ "$found" != ' ' ]
}
read_stat() {
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    set -- ${line##*) }
    parent=$2 session=$4
    [ "$1" != Z ]
}
add() {
    read_stat "$1" || return 1
    found="$found$1 "
    [ "$session" -le 1 ] || sessions="$sessions$session "
}
find_marked || exit 0
kill -HUP $found 2>/dev/null
kill -CONT $found 2>/dev/null
for try in 1 2 3 4 5; do
    find_marked || exit 0
    sleep 0.1
done
for try in 1 2 3 4 5 6 7 8 9 10; do
    kill -KILL $found 2>/dev/null
    find_marked || exit 0
    sleep 0.1
done
echo "still there:$found"
exit 1
"""
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRequest:
    """A shell to open. Raises ValueError for an id or a size that no terminal has.

    `shell_id` marks its processes and its copy, so that a later process finds them; it is never
    used twice. `command` is run without a shell; empty: an interactive shell. `environment` has
    the step's variables; a runtime uses it only if it does not keep those of an ended unit.
    """

    shell_id: str
    command: tuple[str, ...] = ()
    columns: int = 80
    rows: int = 24
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not _ID.match(self.shell_id):
            raise ValueError("the id of a shell must be 1 to 64 letters, digits, `_` or `-`")
        require_size(self.columns, self.rows)

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that the shell has beside those of the step."""
        return {"TERM": TERMINAL, MARK: self.shell_id}


def require_size(columns: int, rows: int) -> None:
    """Raise ValueError for a size that no terminal has."""
    if not (0 < columns <= SIZE_LIMIT and 0 < rows <= SIZE_LIMIT):
        raise ValueError(f"a terminal has 1 to {SIZE_LIMIT} columns and rows")


class Shell(ABC):
    """A program on a terminal inside a unit that runs, or inside a copy of an ended one.

    `notice` is what the person at the terminal should know before typing; empty if nothing.
    One task reads, another one may write. Memory is bounded: what nobody reads stays in the
    terminal, and the program waits.
    """

    notice: str = ""

    @abstractmethod
    async def read(self) -> bytes:
        """Return the next output, at most 64 KiB; b"" after the end of the program or its unit.

        Raises RuntimeUnavailable if the runtime goes away.
        """

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Type; do nothing after the end.

        Raises ShellUnavailable if the program does not read for 30 s.
        """

    @abstractmethod
    async def resize(self, *, columns: int, rows: int) -> None:
        """Set the size of the terminal; do nothing after the end. Raises ValueError."""

    @abstractmethod
    async def wait(self) -> int:
        """Return the exit code once `read` has returned b"", or the shell is closed.

        It is 137 for a program that was killed, and for one whose code nobody knows any more.
        """

    @abstractmethod
    async def close(self) -> None:
        """Hang up, then kill all that the program started, and remove the copy.

        Nothing else of the unit is touched. Closing again does nothing. Raises
        RuntimeUnavailable: then `end_shells` of a later process removes what is left.
        """
