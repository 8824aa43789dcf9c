#!/bin/sh
set -eu
echo "it works"
