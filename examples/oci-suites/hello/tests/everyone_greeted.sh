#!/bin/sh
# Every guest got exactly one answer, and it names the guest.
set -eu

answers="$PARTITA_WORKSPACE_DIR/mailbox/answers"
greeted=0

for guest in $GUESTS; do
    if ! grep -q "$guest" "$answers/$guest"; then
        echo "nobody greeted $guest" >&2
        exit 1
    fi
    greeted=$((greeted + 1))
    echo "ok: $(cat "$answers/$guest")"
done

echo "guests greeted: $greeted"
