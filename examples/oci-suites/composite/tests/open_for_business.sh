#!/bin/sh
# The shop, which is another suite, answers under its name in the run's network.
set -eu
answer=$(wget -qO- -T 10 "$API_URL/health")
echo "the shop says: $answer"
