#!/bin/sh
# Puts JOBS jobs into the queue.
set -eu
cd "$PARTITA_WORKSPACE_DIR"
n=1
while [ "$n" -le "$JOBS" ]; do
    echo "job number $n" > "queue/$n.part"
    mv "queue/$n.part" "queue/$n.job"
    echo "queued $n"
    n=$((n + 1))
done
