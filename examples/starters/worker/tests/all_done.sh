#!/bin/sh
# Every job has a result within 30 s, and it is the right one.
set -eu
cd "$PARTITA_WORKSPACE_DIR"
waited=0
while [ "$(ls results | grep -c '\.txt$')" -lt "$JOBS" ]; do
    waited=$((waited + 1))
    [ "$waited" -le 300 ] || { echo "after 30 s, of $JOBS results there are only:" $(ls results) >&2; exit 1; }
    sleep 0.1
done
wanted="JOB NUMBER $JOBS"
got=$(cat "results/$JOBS.txt")
if [ "$got" != "$wanted" ]; then
    echo "results/$JOBS.txt: got \"$got\", wanted \"$wanted\"" >&2
    exit 1
fi
echo "$JOBS jobs are done"
