#!/bin/sh
# Kills a program 200 times (or $1 times) while it saves a checkpoint, and counts how often a loadable
# one was left. Usage: scripts/kill_test.sh [trials] [build folder]
set -eu
cd "$(dirname "$0")/.."
trials=${1:-200}
build=${2:-build/release}
test -x "$build/kill_test" || { echo "kill_test.sh: $build/kill_test is missing: build the target kill_test first" >&2; exit 1; }
MANTISSA_KILL_TRIALS=$trials exec "$build/kill_test"
