#!/usr/bin/env bash
# What autocast costs outside regions, in instructions: scripts/autocast_cost.sh [PROGRAM]. Runs the loops of
# tests/autocast_cost_test.cpp under valgrind, with and without the lines on autocast; the start of the program is
# subtracted. Exit status: 0 when the cost is below 2 %, 77 when it cannot be measured.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=${1:-$root/build/release/autocast_cost_test}
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed"; exit 77; }
[ -x "$program" ] || { echo "$program is not built" >&2; exit 2; }

count() {  # instructions of the loop $1 with $2 calls; valgrind knows no AVX-512
  AUTOCAST_COST_CALLS=$2 MANTISSA_ISA=avx2 OMP_NUM_THREADS=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" 2>&1 |
    sed -nE 's/.*Collected : ([0-9]+).*/\1/p'
}
calls=5000
start=$(count "loop with autocast" 0) || { echo "skipped: the program does not run under valgrind"; exit 77; }
[ -n "$start" ] || { echo "skipped: the program does not run under valgrind"; exit 77; }
with=$(($(count "loop with autocast" $calls) - start))
without=$(($(count "loop without autocast" $calls) - $(count "loop without autocast" 0)))
awk -v w="$with" -v o="$without" -v n=$((2 * calls)) 'BEGIN {
  cost = 100 * (w - o) / o
  printf "instructions per small operator: %.1f with autocast, %.1f without, cost %.2f %% (must stay below 2 %%)\n", w / n, o / n, cost
  exit cost < 2 ? 0 : 1
}'
