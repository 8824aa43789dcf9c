#!/bin/sh
# Every answer is a kind one. Leaves a JUnit report, so that each answer shows as a test case.
set -eu

answers="$PARTITA_WORKSPACE_DIR/mailbox/answers"
cases=""
total=0
failed=0

for answer in "$answers"/*; do
    guest=${answer##*/}
    total=$((total + 1))
    case "$(cat "$answer")" in
        Hello,* | Hallo,* | Welcome,*)
            echo "ok: $guest was greeted kindly"
            cases="$cases<testcase classname=\"friendly\" name=\"$guest\"/>"
            ;;
        *)
            echo "not ok: $guest was told: $(cat "$answer")" >&2
            failed=$((failed + 1))
            cases="$cases<testcase classname=\"friendly\" name=\"$guest\"><failure message=\"not a kind greeting\"/></testcase>"
            ;;
    esac
done

printf '<testsuite name="friendly" tests="%d" failures="%d">%s</testsuite>\n' \
    "$total" "$failed" "$cases" > "$PARTITA_ARTIFACTS_DIR/friendly.xml"

[ "$failed" -eq 0 ]
