#!/usr/bin/env bash
# The checks that take too long for .ci/run: scripts/check_all.sh [lane...], all of them without names. Lanes:
#   samples     every sample with --device cuda on the CPU shim, in tiny settings and all precisions
#   ptx         the CUDA backend on the shim, which executes the PTX of nvcc and NVRTC (tests/cuda_shim/ptx.h): needs nvcc
#   other_gpus  every file of kernels compiled for sm_80, sm_100 and sm_120: needs nvcc
#   shim_asan   the CUDA backend on the shim under AddressSanitizer and UndefinedBehaviorSanitizer
#   shim_tsan   the same under ThreadSanitizer: CUDA threads count as threads
#   cpu_asan    every other test under AddressSanitizer and UndefinedBehaviorSanitizer
#   cpu_tsan    every other test under ThreadSanitizer
#   clang       everything compiled by clang 16, and every test
#   arm64       the library and its main tests compiled for ARM64 and run by qemu
# A lane that fails does not stop the others. The last lines say what each lane gave and how long it took; logs lie in
# build/check_all. $MANTISSA_JOBS: compilers and tests at a time (default: one for each core); what is in
# $MANTISSA_CTEST goes to ctest, such as "-R cuda_gemm_test"; what is in $MANTISSA_CMAKE to cmake.
# So that a lane takes an hour and not three, the sanitizers see CPU kernels of one instruction set, the newest of this
# machine. docs/gpu/README.md says what each sanitizer does not see, and where the lanes have run.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

jobs=${MANTISSA_JOBS:-$(nproc)}
read -ra ctest_options <<<"${MANTISSA_CTEST:-}"
logs=$root/build/check_all
names_of() { for file in "$@"; do basename "$file" .cpp; done; }
shim_tests=$(names_of tests/cuda_*_test.cpp tests/cuda_shim/*_test.cpp; echo cuda_bench_check)
cpu_targets=$(names_of tests/*_test.cpp samples/*.cpp | grep -v '^cuda_'; echo mantissa)
shim_pattern="^(late_|libraries_|hopper_|tuned_)?($(paste -sd '|' <<<"$shim_tests"))\$"
# cuda_kernels_test compares names in object files, and has nothing to run under a sanitizer.
not_cpu_pattern="$shim_pattern|^cuda_kernels_test\$"
mkdir -p "$logs"

# build_preset PRESET OPTIONS TARGETS...
build_preset() {
  local preset=$1 options=$2
  shift 2
  # shellcheck disable=SC2086  # several options
  cmake --preset "$preset" -DMANTISSA_CUDA=OFF $options ${MANTISSA_CMAKE:-} &&
    cmake --build --preset "$preset" -j "$jobs" --target "$@" || { echo "STOPPED: it does not build" && return 1; }
}
# sanitized PRESET TARGETS CTEST_OPTIONS...
sanitized() {
  local preset=$1 targets=$2 status=0
  shift 2
  # shellcheck disable=SC2086  # names of targets
  build_preset "$preset" "-DMANTISSA_ONE_ISA=$(newest_isa)" $targets || return 1
  ctest --preset "$preset" -j "$jobs" "$@" "${ctest_options[@]}" || status=1
  local reports='(ERROR|WARNING): (Address|Leak|Thread)Sanitizer|:[0-9]+: runtime error: '
  echo "sanitizer reports: $(grep -cE "$reports" "build/$preset/Testing/Temporary/LastTest.log")"
  return $status
}

shim_asan() { sanitized asan "$shim_tests" -R "$shim_pattern"; }
shim_tsan() { sanitized tsan "$shim_tests" -R "$shim_pattern"; }
cpu_asan() { sanitized asan "$cpu_targets" -E "$not_cpu_pattern"; }
cpu_tsan() { sanitized tsan "$cpu_targets" -E "$not_cpu_pattern"; }

ptx() {
  local folder=$root/build/release/CMakeFiles/mantissa_ptx.dir status=0
  local executed=$logs/ptx_executed.txt all=$logs/ptx_all.txt
  # shellcheck disable=SC2086  # names of targets
  build_preset release -DMANTISSA_CUDA=ON mantissa_ptx shim_mantissa_bench $shim_tests || return 1
  : >"$executed"
  MANTISSA_SHIM_PTX=$folder MANTISSA_SHIM_PTX_EXECUTED=$executed \
    ctest --preset release -j "$jobs" -R "$shim_pattern|^bench_cuda_test\$" "${ctest_options[@]}" || status=1
  sort -u -o "$executed" "$executed"
  grep -rhoP '^(\.visible )?\.entry \K\w+' "$folder" --include='*.ptx' | sort -u >"$all"
  comm -13 "$executed" "$all" | c++filt >"$logs/ptx_never.txt"
  echo "$(comm -12 "$executed" "$all" | wc -l) of $(wc -l <"$all") kernels executed; $logs/ptx_never.txt has the others"
  return $status
}

other_gpus() {
  local build=$root/build/other_gpus status=0 objects sources
  cmake --preset release -B "$build" -DMANTISSA_CUDA=ON '-DCMAKE_CUDA_ARCHITECTURES=80;100;120' -DMANTISSA_TESTS=OFF \
    -DMANTISSA_SAMPLES=OFF -DMANTISSA_BENCH=OFF || return 1
  cmake --build "$build" -j "$jobs" --target mantissa_cuda_objects -- -k 0 || status=1
  objects=$(find "$build/CMakeFiles/mantissa_cuda_objects.dir" -name '*.cu.o' | wc -l)
  sources=$(find "$root/cuda" "$root/amp/kernels" -name '*.cu' | wc -l)
  echo "$objects of $sources files compiled for sm_80, sm_100 and sm_120"
  return $status
}

samples() {
  local failures=0 amp
  build_preset release '' shim_samples || return 1
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
    train gpt2 "${text[@]}" --width 16 --heads 2 --context 16 --vocabulary 300 --amp $amp
    train llama "${text[@]}" --width 16 --heads 2 --kv-heads 1 --context 16 --vocabulary 300 --amp $amp
  done
  train imagenet --dataset synthetic-color --limit 4 --batch 2 --epochs 1 --model resnet18 --threads 1
  train cifar "${color[@]}" --model lenet --augment flip
  train cifar "${color[@]}" --model lenet --augment trivial
  train cifar --dataset synthetic-color --limit 2 --batch 2 --epochs 1 --threads 1 --model simple
  train cifar "${color[@]}" --model fast --width 4 --augment cutout
  train char_rnn "${text[@]}" --width 16 --length 16
  train dcgan --dataset synthetic --limit 16 --batch 8 --epochs 1 --width 4 --picture build/check_all/dcgan.png
  train diffusion --dataset synthetic --limit 4 --batch 2 --epochs 1 --width 8 --steps 1 --picture build/check_all/diffusion.png
  train unet --dataset synthetic --limit 4 --batch 2 --epochs 1 --width 4 --levels 2 --picture build/check_all/unet.png
  train detector --dataset synthetic --limit 4 --batch 2 --epochs 1 --picture build/check_all/detector.png
  train cartpole --epochs 1 --target 501
  train custom_op
  train mantissa_info
  echo "$failures failures"
  [ "$failures" -eq 0 ]
}

clang() {
  install_packages "$packages_for_clang"
  build_preset clang '' all && ctest --preset clang -j "$jobs" "${ctest_options[@]}"
}

# qemu runs an instruction some twenty times as long as a processor: what stands for the rest are the tests of every
# operator, of modules, optimizers, mixed precision and files.
arm64_tests=(op_test golden_ops_test golden_ops_more_test golden_modules_test golden_modules_sequence_test golden_optim_test nn_test
  autograd_test amp_test scaler_golden_test dtype_test special_values_test gemm_test kernel_paths_test parallel_test team_test random_test io_test)
arm64() {
  install_packages "$packages_for_arm64"
  scripts/arm64_root.sh || return 1
  build_preset arm64 '' "${arm64_tests[@]}" mnist &&
    ctest --preset arm64 -j "$jobs" -R "^($(IFS='|' && echo "${arm64_tests[*]}")|mnist_test)\$" "${ctest_options[@]}"
}

all=(samples ptx other_gpus shim_asan shim_tsan cpu_asan cpu_tsan clang arm64)
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
  if "$lane" 2>&1 | tee "$logs/$lane.log"; then result=passed; else result=failed failed=1; fi
  said=$(grep -E '^[0-9]+% tests passed|^sanitizer reports|^[0-9]+ failures|^[0-9]+ of [0-9]+ (kernels|files)|^STOPPED' "$logs/$lane.log" | paste -sd ';' || true)
  results+=("$(printf '%-10s %-7s %6d s   %s   %s' "$lane" "$result" $((SECONDS - begin)) "${said:-no last line}" "$logs/$lane.log")")
done
say "Lanes"
printf '%s\n' "${results[@]}"
exit $failed
