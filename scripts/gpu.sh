#!/usr/bin/env bash
# Proves the CUDA backend on a machine with a GPU, and writes one report of it: scripts/gpu.sh [options]
#   --deps DIR      where dependencies lie that the system does not have (include/, lib/, lib/cmake/); may be repeated
#   --seconds N     stop after about N seconds with what there is by then (default 3000)
#   --arch LIST     GPUs to compile for (default: the one in this machine)
#   --build DIR     build folder (default build/gpu)
#   --out DIR       report.txt, report.json and the logs of all stages (default: BUILD/report)
#   --full-sanitizer  compute-sanitizer on every operator; without it, on a reduced set
# It configures, builds with all cores, runs every test on the device (the registry CPU against CUDA, determinism, memory that
# runs out, capture), the sanitizers and the benchmarks. It needs no network and installs nothing. Exit status 0: nothing failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=3000 build=build/gpu out='' arch='' full='' deps=()
while [ $# -gt 0 ]; do
  case $1 in
    --deps) deps+=("$(cd "$2" && pwd)") && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    --arch) arch=$2 && shift 2 ;;
    --build) build=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --full-sanitizer) full=1 && shift ;;
    *) sed -n '2,10p' "${BASH_SOURCE[0]}" && exit 2 ;;
  esac
done
out=${out:-$build/report}
mkdir -p "$out"
started=$SECONDS failed=0
names=() results=() times=()

left() { echo $((seconds - (SECONDS - started))); }
note() {  # stage, result, seconds
  names+=("$1") results+=("$2") times+=("$3")
  printf '%-28s %-10s %5s s\n' "$1" "$2" "$3"
  report
}
# stage NAME LIMIT COMMAND...: runs it with its output in OUT/NAME.log, for at most LIMIT seconds and what is left.
stage() {
  local name=$1 limit=$2 begin=$SECONDS status rest
  shift 2
  rest=$(left)
  [ "$rest" -lt "$limit" ] && limit=$rest
  if [ "$limit" -le 0 ]; then
    note "$name" "no time" 0
    return 1
  fi
  timeout -k 10 "$limit" "$@" >"$out/$name.log" 2>&1
  status=$?
  case $status in
    0) note "$name" passed $((SECONDS - begin)) ;;
    124 | 137) failed=1 && note "$name" "timed out" $((SECONDS - begin)) ;;
    *) failed=1 && note "$name" failed $((SECONDS - begin)) && tail -n 20 "$out/$name.log" ;;
  esac
  return $status
}
skip() { note "$1" "skipped: $2" 0; }

ask_gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }
quote() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }
gpu=$(ask_gpu name)
driver=$(ask_gpu driver_version)
capability=$(ask_gpu compute_cap)
toolkit=$(nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit="$commit, changed"

report() {  # both files, anew after every stage: whatever ends the script, what is known is there
  local i
  {
    echo "GPU      ${gpu:-none}, compute capability ${capability:-unknown}"
    echo "driver   ${driver:-unknown}, toolkit ${toolkit:-unknown}"
    echo "commit   $commit"
    echo "date     $(date -u +%Y-%m-%dT%H:%MZ)"
    echo
    for i in "${!names[@]}"; do printf '%-28s %-24s %5s s\n' "${names[i]}" "${results[i]}" "${times[i]}"; done
    for i in "$out"/gpu_registry_test.log "$out"/bench_*.log; do
      [ -e "$i" ] && printf '\n-- %s\n' "$(basename "$i" .log)" && grep -aE '^operators on cuda|test cases|assertions|^[a-z].*(us|ms|/s|TFLOP|GB)' "$i" | tail -n 40
    done
  } >"$out/report.txt"
  {
    printf '{"gpu": %s, "compute_capability": %s, "driver": %s, "toolkit": %s, "commit": %s, "stages": [' \
      "$(quote "$gpu")" "$(quote "$capability")" "$(quote "$driver")" "$(quote "$toolkit")" "$(quote "$commit")"
    for i in "${!names[@]}"; do
      [ "$i" -gt 0 ] && printf ', '
      printf '{"name": %s, "result": %s, "seconds": %s}' "$(quote "${names[i]}")" "$(quote "${results[i]}")" "${times[i]}"
    done
    printf ']}\n'
  } >"$out/report.json"
}

# ---- build ----
if [ -z "$arch" ]; then
  arch=$(printf '%s' "$capability" | tr -d .)
  [ "$arch" = 90 ] && arch=90a
fi
options=(-DCMAKE_BUILD_TYPE=Release -DMANTISSA_CUDA=ON -DMANTISSA_TESTS=ON -DMANTISSA_BENCH=ON -DMANTISSA_SAMPLES=ON)
[ -n "$arch" ] && options+=("-DCMAKE_CUDA_ARCHITECTURES=$arch")
if [ ${#deps[@]} -gt 0 ]; then
  options+=("-DCMAKE_PREFIX_PATH=$(IFS=';' && echo "${deps[*]}")")
  for d in "${deps[@]}"; do
    export CPATH="$d/include${CPATH:+:$CPATH}" LIBRARY_PATH="$d/lib${LIBRARY_PATH:+:$LIBRARY_PATH}"
    export LD_LIBRARY_PATH="$d/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  done
fi
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
stage configure 300 cmake -S . -B "$build" "${generator[@]}" "${options[@]}" || exit 1
tests=$(cmake --build "$build" --target help | grep -oE '\bgpu_[a-z_]*_test\b' | sort -u | tr '\n' ' ')
# shellcheck disable=SC2086
stage build 2400 cmake --build "$build" --parallel "$(nproc)" --target $tests || exit 1

# ---- correctness ----
if [ -z "$gpu" ]; then
  skip tests "no GPU"
  exit $failed
fi
for t in $tests; do stage "$t" 600 "$build/$t"; done
stage gpu_registry_again 600 "$build/gpu_registry_test" "repeating an operator on cuda gives the same bits"

reduced="add,matmul,linear,softmax,cross_entropy,layer_norm,conv2d,max_pool2d,embedding,scatter_add,sort,sum,dropout"
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    if [ -n "$full" ]; then
      stage "sanitizer_$tool" 1200 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/gpu_registry_test"
    else
      stage "sanitizer_$tool" 300 env MANTISSA_OP="$reduced" compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/gpu_registry_test"
    fi
  done
else
  skip sanitizers "compute-sanitizer not found"
fi

# ---- speed ----
# Single kernels: products beside cuBLASLt, shares of copy bandwidth, attention, the host's time.
if stage build_benches 900 cmake --build "$build" --parallel "$(nproc)" --target gpu_kernels_bench mantissa_bench; then
  stage bench_kernels 400 "$build/gpu_kernels_bench"
  # Training beside PyTorch in one run (docs/performance.md), where a PyTorch with CUDA is installed.
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    for precision in f32 bf16; do
      stage "bench_training_$precision" 900 python3 bench/driver.py --worker "$build/mantissa_bench" --device cuda --parts workloads operators \
        --precision $precision --out "$out/bench_training_$precision.json"
    done
  else
    skip bench_training "no PyTorch that sees a GPU"
  fi
fi
echo "report: $out/report.txt and $out/report.json"
exit $failed
