#!/usr/bin/env bash
# The checks that take too long for .ci/run: scripts/check_all.sh [lane...], all of them without names. Lanes:
#   samples     every sample with --device cuda on the CPU shim, in tiny settings and all precisions
#   shim_asan   the CUDA backend on the shim under AddressSanitizer and UndefinedBehaviorSanitizer
#   shim_tsan   the same under ThreadSanitizer: CUDA threads count as threads
#   cpu_asan    every other test under AddressSanitizer and UndefinedBehaviorSanitizer
#   cpu_tsan    every other test under ThreadSanitizer
# A lane that fails does not stop the others. The last lines say what each lane gave and how long it took; logs lie in
# build/check_all. $MANTISSA_JOBS: compilers and tests at a time (default: one for each core); what is in
# $MANTISSA_CTEST goes to ctest, such as "-R cuda_gemm_test".
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

jobs=${MANTISSA_JOBS:-$(nproc)}
read -ra ctest_options <<<"${MANTISSA_CTEST:-}"
logs=$root/build/check_all
shim_tests=$(cd tests && for t in cuda_*_test.cpp cuda_shim/*_test.cpp; do basename "$t" .cpp; done)
shim_pattern="^($(echo "$shim_tests" | tr '\n' '|' | sed 's/|$//'))\$"
mkdir -p "$logs"

# build_preset PRESET TARGETS...: without targets, everything.
build_preset() {
  local preset=$1
  shift
  cmake --preset "$preset" -DMANTISSA_CUDA=OFF ${MANTISSA_CMAKE:-} && cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"}
}
# shellcheck disable=SC2086  # names of targets
sanitized_shim() { build_preset "$1" $shim_tests && ctest --preset "$1" -j "$jobs" -R "$shim_pattern" "${ctest_options[@]}"; }
sanitized_cpu() { build_preset "$1" && ctest --preset "$1" -j "$jobs" -E "$shim_pattern" "${ctest_options[@]}"; }

shim_asan() { sanitized_shim asan; }
shim_tsan() { sanitized_shim tsan; }
cpu_asan() { sanitized_cpu asan; }
cpu_tsan() { sanitized_cpu tsan; }

samples() {
  local failures=0 amp
  build_preset release shim_samples || return 1
  train() {  # sample and its options
    local begin=$SECONDS name=$1
    shift
    echo "-- $name $*"
    build/release/shim_"$name" --device cuda "$@" || { echo "FAILED: $name $*" && failures=$((failures + 1)); }
    echo "   $((SECONDS - begin)) s"
  }
  local color=(--dataset synthetic-color --limit 16 --batch 8 --epochs 1 --threads 1)
  local text=(--data "$root/README.md" --epochs 1 --layers 1 --batch 128 --write 2)
  for amp in off bf16 f16; do
    train mnist --dataset synthetic --limit 16 --batch 8 --epochs 1 --model mlp --amp $amp
    train mnist --dataset synthetic --limit 4 --batch 2 --epochs 1 --model cnn --amp $amp
    train cifar "${color[@]}" --model resnet18 --width 4 --augment crop --amp $amp
    train vit "${color[@]}" --width 16 --heads 2 --layers 1 --patch 8 --dropout 0.1 --augment flip --amp $amp
    train gpt "${text[@]}" --width 16 --heads 2 --context 16 --amp $amp
  done
  train cifar "${color[@]}" --model lenet --augment flip
  train cifar --dataset synthetic-color --limit 2 --batch 2 --epochs 1 --threads 1 --model simple
  train cifar "${color[@]}" --model fast --width 4 --augment cutout
  train char_rnn "${text[@]}" --width 16 --length 16
  train dcgan --dataset synthetic --limit 16 --batch 8 --epochs 1 --width 4
  train cartpole --epochs 1 --target 501
  train custom_op
  echo "$failures failures"
  [ "$failures" -eq 0 ]
}

all=(samples shim_asan shim_tsan cpu_asan cpu_tsan)
lanes=("$@")
[ $# -gt 0 ] || lanes=("${all[@]}")
for lane in "${lanes[@]}"; do
  [[ " ${all[*]} " == *" $lane "* ]] || stop "no lane is called $lane; there are: ${all[*]}"
done
install_packages "$packages_to_build$packages_to_test"
results=() failed=0
for lane in "${lanes[@]}"; do
  say "$lane"
  begin=$SECONDS
  if (set +e; "$lane") > >(tee "$logs/$lane.log") 2>&1; then result=passed; else result=failed failed=1; fi
  results+=("$(printf '%-10s %-7s %6d s   %s' "$lane" "$result" $((SECONDS - begin)) "$logs/$lane.log")")
done
say "Lanes"
printf '%s\n' "${results[@]}"
exit $failed
