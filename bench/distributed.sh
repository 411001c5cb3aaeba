#!/bin/sh
# Two processes of one thread each, Mantissa's and PyTorch's (gloo) in turns: bench/distributed.sh [BUILD [ROUNDS]]
# Medians over the rounds, and how many times as fast ours are.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build/release}
rounds=${2:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 MANTISSA_NUM_THREADS=1
for round in $(seq "$rounds"); do
  "$build/mantissa_run" -n 2 "$build/distributed_bench" >>"$work/ours"
  # shellcheck disable=SC2016
  "$build/mantissa_run" -n 2 sh -c 'unset MASTER_PORT; MASTER_PORT='$((29500 + round))' exec python3 "$0"' "$here/distributed_torch.py" \
    >>"$work/torch" 2>"$work/err" || { cat "$work/err" && exit 1; }
done
python3 - "$work/ours" "$work/torch" <<'PYTHON'
import collections, statistics, sys
sides = []
for path in sys.argv[1:]:
    seen = collections.defaultdict(list)
    for line in open(path):
        what, size, ms = line.split()
        seen[what, int(size)].append(float(ms))
    sides.append({key: statistics.median(v) for key, v in seen.items()})
print(f"{'':24}{'Mantissa, ms':>14}{'MB/s':>9}{'PyTorch, ms':>14}{'MB/s':>9}{'ratio':>8}")
for (what, size), ours in sides[0].items():
    theirs = sides[1][what, size]
    rate = lambda ms: f"{size / ms / 1000:.0f}" if size else ""
    print(f"{what + (f' {size} B' if size else ''):24}{ours:14.3f}{rate(ours):>9}{theirs:14.3f}{rate(theirs):>9}{theirs / ours:8.2f}")
PYTHON
