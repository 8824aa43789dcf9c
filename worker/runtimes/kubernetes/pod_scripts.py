"""What the containers of a pod run: the filler, the keeper, and what precedes a program."""

from __future__ import annotations

from typing import Final

from worker.domain.gate_program import HAS_LOST_VARIABLES, NOT_RELEASED
from worker.domain.runtime import BUSYBOX, CANNOT_EXECUTE, STEP_DIRECTORY, TOOLS, WORKSPACE

ARCHIVE: Final = "/partita/archive"
MARKS: Final = "/partita/marks"
CLAIM_STATE: Final = "/partita/claim-state"  # of a shared directory on a claim: lock, filled
ARCHIVE_KEY: Final = "files.tgz"
# What a step changed is found by contents: busybox compares times by the second, and a step may
# begin, and be released, in the second in which its directory was filled.
LIST_SHARED: Final = (
    f"(cd {WORKSPACE} && find . -type f | tr '\\n' '\\0' | xargs -r -0 md5sum 2>/dev/null || true)"
)
_STILL_TRIES: Final = 250  # tenths of a second and more: some beats of a node that is slow
# One filler at a time fills a directory on a claim: the one that made the newest lock, as long as
# its beat goes on. When a beat stands still, whoever waits makes the lock with the next number.
FILL: Final = f"""set -e; umask 0
until [ -e {ARCHIVE}/{ARCHIVE_KEY} ]; do sleep 0.1; done
extract() {{ gzip -dc {ARCHIVE}/{ARCHIVE_KEY} | tar -xf - -C / "$@"; }}
if [ -d {CLAIM_STATE} ]; then
  extract partita/step partita/artifacts
  if [ "$1" = fills ]; then
    number=1 still=0 last=none
    until [ -e {CLAIM_STATE}/filled ]; do
      lock={CLAIM_STATE}/lock.$number
      if mkdir $lock 2>/dev/null; then
        (while date +%s > $lock/beat; do sleep 2; done) & trap "kill $!" EXIT
        extract partita/workspace; touch {CLAIM_STATE}/filled
        break
      fi
      sleep 0.1; beat=$(cat $lock/beat 2>/dev/null || true)
      if [ "$beat" != "$last" ]; then still=0 last=$beat; else still=$((still+1)); fi
      if [ $still -ge {_STILL_TRIES} ]; then number=$((number+1)) still=0 last=none; fi
    done
  elif [ ! -e {CLAIM_STATE}/filled ]; then chmod 777 {WORKSPACE}; fi
else extract; {LIST_SHARED} >{MARKS}/filled; fi
[ ! -d {TOOLS} ] || cp /bin/busybox {BUSYBOX}"""
KEEP: Final = 'trap "exit 0" TERM INT; while :; do sleep 3600 & wait $!; done'
KEEP_TO_THE_END: Final = 'trap "" TERM; while :; do sleep 3600; done'
IN_STEP: Final = f'[ "$PWD" != / ] || cd {STEP_DIRECTORY}; exec "$@"'
GATE_SILENCE_S: Final = 60  # then nobody is there who could release the program
GATE_ENDED: Final = "the gate was not opened"
GATE_READY: Final = f"{TOOLS}/ready"  # the gate has looked at the program and waits
WAIT_AT_GATE: Final = f"""\
end() {{ echo "{GATE_ENDED}" >/dev/termination-log; exit $1; }}
if {HAS_LOST_VARIABLES}; then end {CANNOT_EXECUTE}; fi
: >{GATE_READY} || end {CANNOT_EXECUTE}
__word=
while read -r -t {GATE_SILENCE_S} __word && [ "$__word" != release ]; do :; done
[ "$__word" = release ] || end {NOT_RELEASED}"""
