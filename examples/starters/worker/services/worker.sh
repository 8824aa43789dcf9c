#!/bin/sh
# Takes the jobs of the queue, one after the other, and writes a result for each.
set -eu
cd "$PARTITA_WORKSPACE_DIR"
mkdir -p queue results
echo "waiting for jobs"
while :; do
    for job in queue/*.job; do
        [ -e "$job" ] || continue
        name=$(basename "$job" .job)
        tr a-z A-Z < "$job" > "results/$name.part"
        mv "results/$name.part" "results/$name.txt"
        rm "$job"
        echo "did $name"
    done
    sleep 0.1
done
