"""The program of a unit that was started ahead: it waits for its release, then becomes the step's.

It is a script for the static busybox of the unit, which ends by `exec`: the same process, with the
same arguments, variables and directory, so that the runtime sees no difference from then on
(decision 0060). Its exit codes before that: 125 if it was not released, 126 and 127 if the program
cannot be started behind a gate. The runtime then starts the step without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from worker.domain.runtime import BUSYBOX

NOT_RELEASED: Final = 125
RELEASE: Final = b"release\n"
# What the runtime would refuse to start is left to it: a program that is not there, and one
# that is neither binary nor script, which a shell would read as a script of its own. `exec -a`
# keeps the program's name as it was written. What the shell adds to the variables is removed.
_SCRIPT: Final = f"""\
exec 3>&2 2>/dev/null
case $1 in
*/*) __gate=$1 ;;
*)
  __gate=
  IFS=:
  for __folder in $PATH; do
    if [ -f "$__folder/$1" ] && [ -x "$__folder/$1" ]; then __gate=$__folder/$1; break; fi
  done
  unset IFS
  ;;
esac
[ -f "$__gate" ] && [ -x "$__gate" ] || exit 127
case $({BUSYBOX} head -c 4 "$__gate") in "#!"*|?ELF*) ;; *) exit 126 ;; esac
(exec -a true {BUSYBOX}) || exit 126
%s
unset SHLVL PWD OLDPWD
__name=$1
shift
exec 2>&3 3>&-
exec -a "$__name" "$__gate" "$@" </dev/null
"""
_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"  # a shell passes on no others
_OF_SHELL: Final = (
    "(IFS|PWD|OLDPWD|SHLVL|OPTIND|LINENO|FUNCNAME|RANDOM|EPOCH(SECONDS|REALTIME)|PS[0-9]"
    "|MAIL(PATH)?|ATTY|HISTFILESIZE|__(gate|folder|word|name))"
)
_VARIABLES: Final = f"{BUSYBOX} tr '\\n\\0' ' \\n' </proc/$$/environ | {BUSYBOX} grep -qE"
# A condition of the gate, for an image whose variables nobody knows before it runs.
HAS_LOST_VARIABLES: Final = f"{_VARIABLES} -v '^{_NAME}=' || {_VARIABLES} '^{_OF_SHELL}='"


def gate_command(argv: Iterable[str], wait: str) -> tuple[str, ...]:
    """Return what a unit starts so that `argv` runs once the commands of `wait` are done."""
    return (BUSYBOX, "sh", "-c", _SCRIPT % wait, "gate", *argv)


def are_passed_on(names: Iterable[str]) -> bool:
    """Return whether a shell passes on the variables of these names, as they are."""
    return all(re.fullmatch(_NAME, each) and not re.fullmatch(_OF_SHELL, each) for each in names)
