#!/bin/sh
# Instructions of small operators and steps, which nobody may raise without saying so:
#   tests/instructions_test.sh PROGRAM COMPILER [--update]
# PROGRAM is overhead_bench or, for what eager work on a GPU costs the host, cuda_host_bench; COMPILER what it was built
# with. Runs its loops under valgrind and compares with tests/instructions.txt or tests/cuda_shim/instructions.txt; a count
# more than 3 % above the table fails, one more than 3 % below asks for --update, which writes the table anew. Counts of
# another compiler or processor do not compare: skipped, as without valgrind, with a notice (exit status 77).
set -eu
program=$1 compiler=$("$2" -dumpfullversion -dumpversion | sed 's/\..*//') update=${3:-}
tests=$(cd "$(dirname "$0")" && pwd)
case $(basename "$program") in
  cuda_host_bench)
    table=$tests/cuda_shim/instructions.txt
    loops="add_64 add_64_backward add_1024_1024 add_broadcast relu relu_backward linear_bf16 linear_bf16_backward linear_f32 linear_f32_backward
      layer_norm layer_norm_backward softmax softmax_backward cross_entropy cross_entropy_backward conv2d_bf16 conv2d_bf16_backward
      adam_100 zero_grad_100 scaler_100 replay_100" ;;
  *)
    table=$tests/instructions.txt
    loops="add add_recorded add_number ten_multiplications adam_12_tensors scaler_step mlp_tiny" ;;
esac
case $("$2" -dumpmachine),$("$2" --version) in
  *clang*) echo "skipped: the table is of g++"; exit 77 ;;
  x86_64*) ;;
  *) echo "skipped: the table is of x86-64"; exit 77 ;;
esac
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed"; exit 77; }
[ -x "$program" ] || { echo "skipped: $program is not built"; exit 77; }
if [ -z "$update" ] && ! grep -q "^compiler $compiler\$" "$table"; then
  echo "skipped: the table is of another compiler than version $compiler"
  exit 77
fi

# Each loop runs in a process of its own, which says how much was collected when it ends; valgrind knows no AVX-512.
calls=200
output=$(MANTISSA_ISA=avx2 MANTISSA_NUM_THREADS=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null \
  --toggle-collect=measured_loop "$program" $calls $loops 2>&1) || { echo "$output"; echo "a loop failed"; exit 1; }
counts=$(echo "$output" | sed -nE 's/.*Collected : ([0-9]+).*/\1/p')
# The process that waits for the others has collected nothing, and comes last.
[ "$(echo $counts | wc -w)" = "$(echo $loops . | wc -w)" ] || { echo "skipped: the program does not run under valgrind"; exit 77; }

fresh=$(mktemp) status=0
trap 'rm -f "$fresh"' EXIT
sed -n '/^#/p' "$table" > "$fresh"
echo "compiler $compiler" >> "$fresh"
set -- $counts
for loop in $loops; do
  now=$((($1 + calls / 2) / calls))
  shift
  echo "$loop $now" >> "$fresh"
  [ -z "$update" ] || { echo "$loop: $now"; continue; }
  before=$(sed -n "s/^$loop //p" "$table")
  awk -v loop=$loop -v now="$now" -v before="${before:-0}" 'BEGIN {
    change = before > 0 ? 100 * (now - before) / before : 100
    printf "%-20s %7d instructions, %+.1f %% of the table\n", loop, now, change
    if (change < -3) print "  fewer than 3 % below: keep it by tests/instructions_test.sh ... --update"
    exit change > 3
  }' || { echo "  more than 3 % above: find out why, or accept it by --update"; status=1; }
done
[ -z "$update" ] || { cat "$fresh" > "$table"; echo "wrote $table"; }
exit $status
