#!/bin/sh
# Every job has a result within 30 s, and it is the right one.
set -eu
cd "$PARTITA_WORKSPACE_DIR"
waited=0
while [ "$(ls results | grep -c '\.txt$')" -lt "$JOBS" ]; do
    waited=$((waited + 1))
    [ "$waited" -le 300 ] || { echo "only $(ls results) after 30 s" >&2; exit 1; }
    sleep 0.1
done
grep -qx "JOB NUMBER $JOBS" "results/$JOBS.txt"
echo "$JOBS jobs are done"
