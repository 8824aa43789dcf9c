#!/bin/sh
# The greeter: for every letter in the mailbox it writes an answer. It never ends by itself.
set -eu

letters="$PARTITA_WORKSPACE_DIR/mailbox/letters"
answers="$PARTITA_WORKSPACE_DIR/mailbox/answers"
greeting="${GREETING:-Hello}"

answer() {
    name=$(cat "$1")
    # Written under another name first: readers see a whole answer or none.
    printf '%s, %s!\n' "$greeting" "$name" > "$answers/.$name"
    mv "$answers/.$name" "$answers/$name"
    rm "$1"
    echo "greeter: answered $name"
}

mkdir -p "$letters" "$answers" || { echo "greeter: cannot make the mailbox"; exit 1; }
echo "greeter: the mailbox is open"

while :; do
    for letter in "$letters"/*; do
        [ -f "$letter" ] || continue
        answer "$letter"
    done
    sleep 0.2 2> /dev/null || sleep 1
done
