#!/bin/sh
# Writes a letter for every guest, then waits until all of them are answered.
set -eu

letters="$PARTITA_WORKSPACE_DIR/mailbox/letters"
answers="$PARTITA_WORKSPACE_DIR/mailbox/answers"

for guest in $GUESTS; do
    printf '%s' "$guest" > "$letters/.$guest"
    mv "$letters/.$guest" "$letters/$guest"
    echo "posted a letter from $guest"
done

for guest in $GUESTS; do
    until [ -f "$answers/$guest" ]; do
        [ -z "${VERBOSE:-}" ] || echo "still waiting for the answer to $guest"
        sleep 0.2 2> /dev/null || sleep 1
    done
    echo "$guest has an answer"
done
