#!/usr/bin/env bash
# Proves the CUDA backend on a machine with a GPU, and writes one report of it: scripts/gpu.sh [options]
#   --deps DIR      what scripts/gpu_pack.sh made, or a prefix (include/, lib/) of what is missing; may be repeated
#   --seconds N     stop after about N seconds with what there is by then (default 3000)
#   --resume        keep what passed or failed with these same programs; do what is missing, cut off, or built anew
#   --only STAGE... these stages alone, or groups of them: build, tests, sanitizers, benches
#   --list          print the stages in their order, and stop; --programs: the programs that they run; --sources: a
#                   checksum of what those are compiled from
#   --out DIR       report.txt, report.json, logs.tar.gz, anew after every stage (BUILD/report has them and all logs)
#   --arch LIST     GPUs to compile for (default: the one in this machine)
#   --build DIR     build folder (default build/gpu)
#   --full-sanitizer  compute-sanitizer on every operator; without it, on a reduced set
# It configures, builds with all cores, runs every test on the device (the registry CPU against CUDA, determinism,
# memory that runs out, capture), the benchmarks and the sanitizers: what says most comes first. A stage that fails
# stops no other. It needs no network and installs nothing. Where there is no git, $MANTISSA_COMMIT names the commit.
# Exit status 0: all passed.
# shellcheck disable=SC2317  # functions that bash -c calls
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

# What speed is asked for on a GPU (docs/gpu/README.md): one training workload a stage. Then everything else.
main_workloads=(mlp128 cnn resnet512 gpt2)  # the shortest first
# Products and capture take seconds and hold most of what ran nowhere yet; the registry takes minutes and is most of the
# proof. What else is tested waits until speed is known.
first_tests=(gpu_gemm_test gpu_capture_test gpu_registry_test gpu_attention_test gpu_linear_act_test gpu_norm_test)
alone_tests=(gpu_memory_test gpu_profile_test)  # they take all the memory there is, and hold times against each other
other_tests=()
for t in tests/cuda_*_test.cpp; do
  t=gpu_$(basename "${t#tests/cuda_}" .cpp)
  [[ " ${first_tests[*]} ${alone_tests[*]} " == *" $t "* ]] || other_tests+=("$t")
done
test_stages=("${first_tests[@]}" "${alone_tests[@]}" "${other_tests[@]}")
programs=("${test_stages[@]}" gpu_kernels_bench mantissa_bench)
sources() {  # everything that the compilers read for them
  find CMakeLists.txt cmake mantissa.h amp autograd bench core cuda data io jit nn ops optim tests/*.h tests/golden/*.{h,cpp} \
    tests/cuda_*_test.cpp -type f ! -name '*.md' ! -name '*.py' ! -name '*.sh' -print0 2>/dev/null |
    LC_ALL=C sort -z | xargs -0 sha256sum | cksum
}
build_stages=(machine unpack configure build_registry build resources)
bench_stages=(bench_kernels "${main_workloads[@]/#/bench_}")
sanitizer_stages=(sanitizer_memcheck sanitizer_racecheck sanitizer_initcheck sanitizer_synccheck)
last_stages=(bench_operators bench_f32)
all_stages=("${build_stages[@]}" "${first_tests[@]}" tuned "${bench_stages[@]}" "${alone_tests[@]}" "${sanitizer_stages[@]}"
            "${other_tests[@]}" "${last_stages[@]}")

usage() { sed -n '2,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
seconds=3000 build=build/gpu out='' arch='' full='' resume='' deps=() only=()
while [ $# -gt 0 ]; do
  case $1 in
    --deps) deps+=("${2:?}") && shift 2 ;;
    --seconds) seconds=${2:?} && shift 2 ;;
    --arch) arch=${2:?} && shift 2 ;;
    --build) build=${2:?} && shift 2 ;;
    --out) out=${2:?} && shift 2 ;;
    --full-sanitizer) full=1 && shift ;;
    --resume) resume=1 && shift ;;
    --list) printf '%s\n' "${all_stages[@]}" && exit 0 ;;
    --programs) printf '%s\n' "${programs[@]}" && exit 0 ;;
    --sources) sources; exit 0 ;;
    --only)
      shift
      while [ $# -gt 0 ] && [[ $1 != --* ]]; do
        case $1 in
          build) only+=("${build_stages[@]}") ;;
          tests) only+=("${test_stages[@]}") ;;
          sanitizers) only+=("${sanitizer_stages[@]}") ;;
          benches) only+=("${bench_stages[@]}" bench_operators bench_f32) ;;
          *)
            [[ " ${all_stages[*]} " == *" $1 "* ]] ||
              { echo "gpu.sh: no stage is called $1; --list names them" >&2 && exit 2; }
            only+=("$1") ;;
        esac
        shift
      done
      [ ${#only[@]} -gt 0 ] || usage ;;
    *) usage ;;
  esac
done
case $build in /*) ;; *) build=$PWD/$build ;; esac
bin=$build  # where the programs are, unless they came built
report=$build/report  # logs, and what each stage gave: what --resume goes by
mkdir -p "$report/stages" || exit 2
[ -z "$out" ] || mkdir -p "$out" || exit 2
started=$SECONDS failed=0 cores=$(nproc)
for d in /usr/local/cuda/bin /usr/local/cuda-*/bin; do  # nvcc and compute-sanitizer, where nothing else brings them
  [ ! -d "$d" ] || PATH=$PATH:$d
done
have() { command -v "$1" >/dev/null; }
left() { echo $((seconds - (SECONDS - started))); }

# ---- what is known about the machine ----
ask_gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }
gpu=$(ask_gpu name)
driver=$(ask_gpu driver_version)
capability=$(ask_gpu compute_cap)
toolkit=$(nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
if [ -n "$gpu" ] && [ "$gpu" != "$(cat "$report/gpu" 2>/dev/null)" ]; then  # what another GPU gave is not this one's
  rm -f "$report"/stages/* "$report"/*.json
  echo "$gpu" >"$report/gpu"
fi
commit=${MANTISSA_COMMIT:-$(git rev-parse --short=12 HEAD 2>/dev/null)}
for d in ${deps[@]+"${deps[@]}"}; do
  [ -n "$commit" ] || commit=$(sed -n 's/^commit \([0-9a-f]*\).*/\1 (when packed)/p' "$d/contents.txt" 2>/dev/null)
done
[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || commit="$commit, changed"

# ---- stages ----
# A stage's file holds: result, seconds, and the stamp of the programs that gave it.
stamp_of() {
  local stamp
  stamp=$(stat -Lc '%Y.%s' "$@" 2>/dev/null | tr '\n' ' ')
  [ -z "$stamp" ] || echo "$stamp$(stat -Lc '%Y.%s' "$bin"/libmantissa.so* 2>/dev/null | tr '\n' ' ')"
}
# fresh FILE PROGRAMS...: removes what other programs than these left there.
fresh() {
  local file=$1 stamp
  shift
  stamp=$(stamp_of "$@")
  [ "$stamp" = "$(cat "$file.of" 2>/dev/null)" ] || rm -f "$file"
  mkdir -p "$(dirname "$file")" && echo "$stamp" >"$file.of"
}
result_of() { sed -n 1p "$report/stages/$1" 2>/dev/null; }
note() {  # stage, result, seconds, stamp
  printf '%s\n%s\n%s\n' "$2" "$3" "${4:-}" >"$report/stages/$1"
  printf '%-28s %-24s %5s s\n' "$1" "$2" "$3"
  write_report
}
wanted() { [ ${#only[@]} -eq 0 ] || [[ " unpack ${only[*]} " == *" $1 "* ]]; }  # what is packed may be new
# due STAGE [PROGRAMS...]: whether it is to run now. Says so where it is not.
due() {
  local stage=$1 stamp
  shift
  wanted "$stage" || return 1
  stamp=$(stamp_of "$@")
  if [ -n "$resume" ] && [ -n "$stamp" ] && [ "$stamp" = "$(sed -n 3p "$report/stages/$stage" 2>/dev/null)" ]; then
    case $(result_of "$stage") in
      "failed (saw no GPU)") ;;  # it may have come back
      passed | failed* | "timed out")
        printf '%-28s %-24s (kept)\n' "$stage" "$(result_of "$stage")"
        [ "$(result_of "$stage")" = passed ] || failed=1
        return 1 ;;
    esac
  fi
  enough_time "$stage" 1
}
# enough_time STAGE SECONDS: whether as many are left. Says so where not.
enough_time() {
  [ "$(left)" -ge "$2" ] && return 0
  case $(result_of "$1") in '' | "cut off" | "no time") note "$1" "no time" 0 ;; esac
  failed=1
  return 1
}
# run STAGE LIMIT COMMAND...: with its output in STAGE.log, for at most LIMIT seconds and what is left, and ten more to
# store what it has. Prints nothing.
# Its result is left in STAGE.done: "cut off" where time ended, "timed out" where its own limit did.
run() {
  local stage=$1 limit=$2 begin=$SECONDS ended="timed out" rest status result
  shift 2
  rest=$(left)
  [ "$rest" -gt 0 ] || rest=1  # to timeout(1), 0 is no limit
  [ "$rest" -ge "$limit" ] || limit=$rest ended="cut off"
  timeout -k 10 "$limit" "$@" >"$report/$stage.log" 2>&1 </dev/null
  status=$?
  case $status in
    0) result=passed ;;
    124) result=$ended ;;
    137)  # killed, by timeout(1) or, before that, for memory
      result="failed (137)"
      [ $((SECONDS - begin)) -lt "$limit" ] || result=$ended ;;
    *) result="failed ($status)" ;;
  esac
  printf '%s\n%s\n' "$result" $((SECONDS - begin)) >"$report/$stage.end" && mv "$report/$stage.end" "$report/$stage.done"
}
finish() {  # stage, programs
  local stage=$1 result took action
  shift
  { read -r result && read -r took; } <"$report/$stage.done"
  rm -f "$report/$stage.done"
  if [ "$result" = passed ]; then  # tests say so and pass, as there may be none
    if grep -qE 'no GPU( and no shim|: nothing)' "$report/$stage.log"; then
      result="failed (saw no GPU)" gpu=''
      echo "CUDA finds no GPU: nothing more that needs one is run"
    elif [ "$capability" = 9.0 ] && grep -q 'no Hopper GPU' "$report/$stage.log"; then
      result="failed (saw no Hopper GPU)"
    fi
  fi
  note "$stage" "$result" "$took" "$(stamp_of "$@")"
  [ "$result" = passed ] && return 0
  failed=1
  tail -n 20 "$report/$stage.log"
  dmesg 2>/dev/null | grep -i 'NVRM: Xid' | tail -n 3
  action=$(nvidia-smi -q 2>/dev/null | sed -n 's/.*recovery action *: *//Ip' | head -n 1)
  case ${action:-None} in
    None | N/A) ;;
    *)
      echo "the GPU's recovery action is $action: nothing more that needs it is run"
      gpu='' ;;
  esac
  return 1
}
# stage NAME LIMIT PROGRAM COMMAND...: PROGRAM is what --resume looks at; always: it runs every time.
stage() {
  local name=$1 limit=$2 program=$3
  shift 3
  due "$name" "$program" || return 1
  run "$name" "$limit" "$@"
  finish "$name" "$program"
}
# What is not timed may share the machine: begin STAGE LIMIT COMMAND... runs it in the background, and await N finishes
# what has ended until no more than N are left.
underway=()
begin() {
  rm -f "$report/$1.done"
  run "$@" &
  underway+=("$1")
}
await() {
  local s program rest
  while [ ${#underway[@]} -gt "$1" ]; do
    rest=()
    for s in "${underway[@]}"; do
      case $s in sanitizer_*) program=gpu_registry_test ;; *) program=$s ;; esac
      if [ -e "$report/$s.done" ]; then finish "$s" "$bin/$program"; else rest+=("$s"); fi
    done
    underway=(${rest[@]+"${rest[@]}"})
    [ ${#underway[@]} -le "$1" ] || sleep 0.2
  done
}
skip() {
  wanted "$1" || return 0
  note "$1" "skipped: $2" 0
}

# ---- the report ----
printf '%s\n' "${all_stages[@]}" >"$report/order.txt"
{
  echo "GPU: ${gpu:-none}, compute capability ${capability:-unknown}"
  echo "driver: ${driver:-unknown}"
  echo "toolkit: ${toolkit:-unknown}"
  echo "commit: ${commit:-unknown}"
  echo "date: $(date -u +%Y-%m-%dT%H:%MZ)"
} >"$report/machine.txt"
write_report() {  # anew after every stage: whatever ends the script, what is known is there
  if have python3; then
    python3 scripts/gpu_report.py "$report"
  else
    head -n 2 "$report"/machine.txt "$report"/stages/* >"$report/report.txt"
  fi
  [ -n "$out" ] || return 0
  cp "$report"/report.* "$out/"
  tar -C "$report" -czf "$out/logs.tar.gz" --warning=no-file-changed .
}

# ---- the machine: everything that is needed to understand a failure from afar ----
machine() {
  nvidia-smi
  nvidia-smi -q -d CLOCK,POWER,PERFORMANCE 2>/dev/null | head -n 80
  for c in nvcc c++ cmake ninja python3 ncu compute-sanitizer xz; do
    printf '%-18s %s\n' "$c" "$(command -v "$c" || echo 'not there')"
  done
  nvcc --version | tail -n 2
  c++ --version | head -n 1
  cmake --version | head -n 1
  ldd --version | head -n 1
  nproc
  grep MemAvailable /proc/meminfo
  python3 -c 'import torch; print("torch", torch.__version__, torch.version.cuda); print(torch.cuda.is_available())'
  return 0
}

# The clocks beside every measured second. It also keeps the driver loaded between programs.
if [ -n "$gpu" ]; then
  nvidia-smi --query-gpu=timestamp,clocks.sm,power.draw,temperature.gpu,clocks_event_reasons.active --format=csv \
    -lms 1000 >>"$report/clocks.csv" 2>&1 &
  clocks=$!
  trap 'kill "$clocks" 2>/dev/null' EXIT
fi

# ---- dependencies: unpacked once, into the build folder ----
extract() { if command -v xz >/dev/null; then tar -C "$2" -xJf "$1"; else python3 -m tarfile -e "$1" "$2"; fi; }
unpack_once() {  # archive, folder: which is left as it is if it holds that archive, and goes if there is none
  local sum
  sum=$(cksum 2>/dev/null <"$1")
  [ "$sum" != "$(cat "$2/.from" 2>/dev/null)" ] || return 0
  rm -rf "$2"
  [ -z "$sum" ] || { mkdir -p "$2" && extract "$1" "$2" && echo "$sum" >"$2/.from"; }
}
unpack() {  # build folder, folders of --deps
  local build=$1 d
  shift
  for d in "$@"; do
    [ -e "$d/deps.tar.xz" ] || continue
    unpack_once "$d/deps.tar.xz" "$build/deps" && unpack_once "$d/programs.tar.xz" "$build/programs" || return 1
    if [ -d "$d/data" ]; then mkdir -p "$build/data" && cp -R "$d/data/." "$build/data/" || return 1; fi
  done
}
# Pictures become CIFAR-10's own layout. It takes a while, and one core: while the others compile.
pictures() {  # folder of data
  [ ! -e "$1/cifar-10-batches-bin/data_batch_1.bin" ] || return 0
  rm -rf "$1/part"
  if [ -e "$1/cifar10-jpeg/unpack.py" ]; then
    python3 "$1/cifar10-jpeg/unpack.py" "$1/part" && mv "$1/part/cifar-10-batches-bin" "$1/"
  else
    for f in "$1"/cifar-10-batches-bin/*.xz; do
      [ ! -e "$f" ] || { xz -dc "$f" >"$1/part" && mv "$1/part" "${f%.xz}"; }
    done
  fi
}
export -f machine extract unpack_once unpack pictures

# A copy of the sources may have new times, and all would be compiled again: what has the content that it had gets the
# time that it had.
keep_times() {
  local list=$build/sources time name sum
  find . \( -name .git -o -name __pycache__ -o -path ./build -o -name 'build-*' -o -path ./shared \) -prune -o -type f -printf '%P\n' |
    sort >"$list.names"
  if [ -e "$list" ]; then
    tr '\n' '\0' <"$list.names" | xargs -0 sha256sum |
      awk 'NR == FNR { time[$1 " " $3] = $2; next } ($1 " " $2) in time { print time[$1 " " $2], $2 }' "$list" - |
      while read -r time name; do [ "$(stat -c %Y "$name")" = "$time" ] || touch -d "@$time" "$name"; done
  fi
  tr '\n' '\0' <"$list.names" | xargs -0 sha256sum |
    while read -r sum name; do echo "$sum $(stat -c %Y "$name") $name"; done >"$list.new"
  ! cmp -s "$list.new" "$list" || same_sources=1
  mv "$list.new" "$list"
}
# Whether the build has nothing to do: what it made of these sources with these options is all there.
built() {
  local s
  printf '%s\n' "${options[@]}" >"$build/options.new"
  cmp -s "$build/options.new" "$build/options" || same_sources=''
  mv "$build/options.new" "$build/options"
  [ -n "$same_sources" ] && [ ${#only[@]} -eq 0 ] || return 1
  for s in configure build_registry build resources; do [ "$(result_of "$s")" = passed ] || return 1; done
  for s in "${test_stages[@]}" gpu_kernels_bench mantissa_bench; do [ -x "$bin/$s" ] || return 1; done
}

# CMake's options for a prefix of dependencies. Programs find its libraries by an RPATH, which (unlike a RUNPATH) also
# serves what those libraries need: no variable that would change what Python or other tools load.
use_prefix() {
  local file name
  prefixes+=("$1")
  while read -r file; do  # said outright: the system's would be found first, or none where lib/ARCH is not searched
    name=$(basename "$file" | sed -E 's/-?[cC]onfig\.cmake$//')
    case $name in dnnl | libjpeg-turbo) ;; *) options+=("-D${name}_DIR=$(dirname "$file")") ;; esac
  done < <(find "$1" -name '*Config.cmake' -o -name '*-config.cmake')
  export CPATH="$1/include${CPATH:+:$CPATH}" LIBRARY_PATH="$1/lib${LIBRARY_PATH:+:$LIBRARY_PATH}"
  link_flags+=" -Wl,-rpath-link,$1/lib -Wl,-rpath,$1/lib"
}
one_of() {  # whether any of these files is there
  local f
  for f in "$@"; do [ -e "$f" ] && return 0; done
  return 1
}
toolkit_root() { dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")"; }
python_cuda() { python3 -c 'import nvidia; print("\n".join(nvidia.__path__))' 2>/dev/null; }
# Where the toolkit has no cuDNN or no cuBLASLt: those of Python's packages, which come without links libX.so. Headers of
# cuBLASLt and NVRTC too; no others of CUDA, which are those of nvcc's own version.
use_python_cuda() {
  local root folder lib name links=$build/toolkit
  root=$(toolkit_root)
  if [ -n "${CUDNN_ROOT:-}" ]; then options+=("-DCUDNN_ROOT=$CUDNN_ROOT"); fi
  one_of "$root"/lib*/libcublasLt.so "$root"/targets/*/lib/libcublasLt.so &&
    one_of "$root"/include/cublasLt.h "$root"/targets/*/include/cublasLt.h &&
    one_of ${CUDNN_ROOT:+"$CUDNN_ROOT"} "$root/include/cudnn_graph.h" {/usr,/usr/local}/include/cudnn_graph.h && return
  mkdir -p "$links/include"
  while read -r folder; do
    if ! one_of "$root"/include/cublasLt.h "$root"/targets/*/include/cublasLt.h "$links/include/cublasLt.h"; then
      for name in "$folder"/*/include/cublas*.h; do
        [ ! -e "$name" ] || ln -sf "$name" "$links/include/"
      done
    fi
    if ! one_of "$root"/include/nvrtc.h "$root"/targets/*/include/nvrtc.h "$links/include/nvrtc.h"; then
      for name in "$folder"/*/include/nvrtc.h; do
        [ ! -e "$name" ] || ln -sf "$name" "$links/include/"
      done
    fi
    for lib in "$folder"/*/lib/lib{cudart,cublasLt,cudnn,nvrtc}.so.*; do
      [ -e "$lib" ] || continue
      name=$(basename "$lib")
      ln -sf "$lib" "$links/$name" && ln -sf "$lib" "$links/${name%%.so*}.so"
      lib=$(dirname "$lib")
      [[ $link_flags == *",$lib" ]] || link_flags+=" -Wl,-rpath,$lib"
    done
    for name in "$folder"/*/include/cudnn_graph.h; do
      [ ! -e "$name" ] || [ -n "${CUDNN_ROOT:-}" ] || options+=("-DCUDNN_ROOT=$(dirname "$(dirname "$name")")")
    done
  done < <(python_cuda)
  options+=("-DCMAKE_LIBRARY_PATH=$links" "-DCMAKE_INCLUDE_PATH=$links/include")
  export CPATH="$links/include${CPATH:+:$CPATH}"
}

# Libraries that programs need and the system does not find: links in BUILD/cuda, where such programs look for them, to
# the toolkit's or those of Python's packages.
find_libraries() {  # programs
  local lib folder
  mkdir -p "$build/cuda"
  ldd "$@" | sed -n 's/^[[:space:]]*\([^ ]*\) => not found$/\1/p' | sort -u | while read -r lib; do
    # shellcheck disable=SC2046
    for folder in "$(toolkit_root)"/lib64 "$(toolkit_root)"/targets/*/lib $(python_cuda | sed 's|$|/*/lib|'); do
      if [ -e "$folder/$lib" ]; then ln -sf "$folder"/lib*.so* "$build/cuda/" && break; fi  # also what it loads later
    done
  done
}
# Whether the programs came built (scripts/gpu_pack.sh --programs), for this GPU, and start here. Says so where they do not.
came_built() {
  local from=$build/programs lost
  [ -e "$from/sources" ] || return 1
  if [ "$(cat "$from/sources")" != "$(sources)" ]; then
    echo "gpu.sh: $from were compiled from other sources than these: pack them again (scripts/gpu_pack.sh --programs)" >&2
    exit 2
  fi
  if [ -n "$arch" ] && [ "$(cat "$from/arch")" != "$arch" ]; then
    echo "the programs came built for sm_$(cat "$from/arch"), not for sm_$arch: they are built here"
    return 1
  fi
  find_libraries "$from"/gpu_gemm_test "$from"/libmantissa.so* 2>/dev/null
  lost=$(ldd "$from"/gpu_gemm_test "$from"/libmantissa.so* 2>&1 | grep -E 'not found|not a dynamic' | sort -u)
  if [ -n "$lost" ] || ! lost=$("$from/gpu_gemm_test" --help 2>&1); then
    echo "the programs came built, but do not start here, and are built anew: $lost"
    return 1
  fi
  bin=$from
  echo "programs: came built, for sm_$(cat "$from/arch") by $(cat "$from/compilers")" | tee -a "$report/machine.txt"
}

options=(-DCMAKE_BUILD_TYPE=Release -DMANTISSA_CUDA=ON -DMANTISSA_TESTS=ON -DMANTISSA_BENCH=ON -DMANTISSA_SAMPLES=ON)
if [ -z "$arch" ]; then
  arch=$(printf '%s' "$capability" | tr -d .)
  [ "$arch" = 90 ] && arch=90a
fi
[ -z "$arch" ] || options+=("-DCMAKE_CUDA_ARCHITECTURES=$arch")
have ninja && options+=(-G Ninja)
case $(/lib64/ld-linux-x86-64.so.2 --help 2>/dev/null) in  # the CPU's kernels for this machine alone: a third of the time
  *"x86-64-v4 (supported"*) options+=(-DMANTISSA_ONE_ISA=avx512) ;;
  *"x86-64-v3 (supported"*) options+=(-DMANTISSA_ONE_ISA=avx2) ;;
esac

# ---- build ----
same_sources=''
[ -z "$resume" ] || keep_times
if [ -z "$same_sources" ] || [ ${#only[@]} -gt 0 ] || [ "$(result_of machine)" != passed ]; then
  stage machine 60 always bash -c machine
fi
[ ${#deps[@]} -eq 0 ] || stage unpack 120 always bash -c 'unpack "$@"' unpack "$build" "${deps[@]}"
prefixes=() link_flags=-Wl,--disable-new-dtags
for d in ${deps[@]+"${deps[@]}"}; do
  if [ ! -e "$d/deps.tar.xz" ] && [ -d "$d/include" ]; then use_prefix "$(cd "$d" && pwd)"; fi
done
[ ! -d "$build/deps/include" ] || use_prefix "$build/deps"
[ ${#prefixes[@]} -eq 0 ] || options+=("-DCMAKE_PREFIX_PATH=$(IFS=';' && echo "${prefixes[*]}")")
have nvcc && use_python_cuda
[ "$link_flags" = -Wl,--disable-new-dtags ] || options+=("-DCMAKE_EXE_LINKER_FLAGS=$link_flags")
unpacking='' preparing=''
if [ -d "$build/data" ]; then
  export MANTISSA_DATA=$build/data
  bash -c 'pictures "$1"' pictures "$build/data" >"$report/pictures.log" 2>&1 &
  unpacking=$!
fi
export XDG_CACHE_HOME=$build/cache  # of PyTorch's compiler and our tuner: a later call goes on from there
# PyTorch compiles its models while nvcc compiles ours, or while the tests run.
prepare() {
  [ -n "$gpu" ] && [ ${#only[@]} -eq 0 ] && [ ! -e "$report/prepared" ] || return 0
  run prepare 400 python3 -u bench/driver.py --worker "$bin/mantissa_bench" --device cuda --precision bf16 --prepare \
    --workload "${main_workloads[@]}" --out "$report/prepare.json" &
  preparing=$!
}
prepared() {  # waits for it, so that what is timed has the machine to itself
  [ -n "$preparing" ] || return 0
  wait "$preparing"
  [ "$(head -n 1 "$report/prepare.done")" != passed ] || touch "$report/prepared"
}
if came_built; then
  prepare
  stage resources 60 "$bin/sources" sh tests/cuda_resources_test.sh . "$bin/ptxas"
elif built; then
  echo "nothing is to be built"
else
  # What fails to build stops what needs it, and nothing else.
  stage configure 300 always cmake -S . -B "$build" "${options[@]}" && prepare
  stage build_registry 2400 always cmake --build "$build" --parallel "$cores" --target gpu_registry_test
  keep_going=$(have ninja && echo "-k 0" || echo -k)
  # shellcheck disable=SC2086
  stage build 2400 always cmake --build "$build" --parallel "$cores" --target "${programs[@]}" -- $keep_going
  stage resources 60 always sh tests/cuda_resources_test.sh . "$build/CMakeFiles/mantissa_cuda_objects.dir"
fi

# ---- correctness ----
# program STAGE: what the stage runs is there. Without a GPU, or where it was not built, says so.
program() {
  wanted "$1" || return 1
  if [ -z "$gpu" ]; then
    [ -n "$resume" ] && [ -n "$(result_of "$1")" ] && return 1  # of a call that had one
    skip "$1" "no GPU"
    return 1
  fi
  [ -x "$bin/$2" ] && return 0
  skip "$1" "$2 was not built"
  failed=1
  return 1
}
# In parts, each a process of its own: a kernel that faults costs its process the GPU, and with it the operators that
# come after it.
registry_parts=12
registry() {  # program, parts, where the log of part i is to be: LOG.i
  local i pids=() status=0
  for ((i = 1; i <= $2; ++i)); do
    MANTISSA_OP_PART=$i/$2 "$1" -d yes >"$3.$i" 2>&1 &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || status=1; done
  return "$status"
}
export -f registry
registry_log() {  # of all parts, also of those that were stopped
  local i log=$report/gpu_registry_test.log
  for ((i = 1; i <= registry_parts; ++i)); do
    echo "== part $i of $registry_parts ==" && cat "$log.$i" && rm "$log.$i"
  done >>"$log"
}
is_due() { program "$1" "$1" && due "$1" "$bin/$1"; }
# Ways to compute are chosen by rule, as in ctest: timing would decide the last bits.
alone() {  # stage, limit: what takes seconds may not hang for minutes
  is_due "$1" || return 0
  MANTISSA_TUNER=off run "$1" "$2" "$bin/$1" -d yes
  finish "$1" "$bin/$1"
}
# threads N: for each of N programs at a time. With more of them than cores, threads wait for those that have none.
threads() { echo $((cores < $1 ? 1 : cores / $1)); }
together() {  # stages, four at a time beside what is under way already, the sanitizers, one thread each
  local others=${#underway[@]} t
  for t in "$@"; do
    is_due "$t" || continue
    await $((others + 3))
    MANTISSA_TUNER=off MANTISSA_NUM_THREADS=$(threads 5) begin "$t" 300 "$bin/$t" -d yes
  done
}
alone gpu_gemm_test 90
alone gpu_capture_test 90
case $(result_of gpu_capture_test) in
  failed* | "timed out")
    export MANTISSA_CUDA_OVERLAP=0
    echo "captured steps failed: in what follows their kernels do not overlap (MANTISSA_CUDA_OVERLAP=0)" ;;
esac
t=gpu_registry_test
if is_due $t; then
  MANTISSA_TUNER=off MANTISSA_NUM_THREADS=$(threads $registry_parts) run $t 420 \
    bash -c 'registry "$@"' registry "$bin/$t" $registry_parts "$report/$t.log"
  registry_log
  finish $t "$bin/$t"
fi
together gpu_attention_test gpu_linear_act_test gpu_norm_test
await 0

# A way to compute that hangs or loses the GPU would take the benchmarks with it: the tuner is told to leave it out.
hangs() { [ "$(result_of "$1")" = "timed out" ] || grep -qs 'lost its GPU' "$report/$1.log"; }
skipped=''
# Ways chosen by timing, each held against the first: what training uses, and the first test of the library's other ways.
tuned=matmul,linear,linear_act,conv2d,conv2d_relu,scaled_dot_product_attention
fresh "$report/cuda.jsonl" "$bin/gpu_registry_test"
program tuned gpu_registry_test && stage tuned 120 "$bin/gpu_registry_test" \
  env MANTISSA_OP=$tuned MANTISSA_CACHE="$report" "$bin/gpu_registry_test"
! hangs tuned || skipped=cudnn,cublaslt_epilogue
# Of products those by several blocks together are tested last: if the case before them has ended, it is they that hang.
if hangs gpu_gemm_test; then
  own=mma,hopper
  ! grep -qs ' s: \[A51\]' "$report/gpu_gemm_test.log" || own=hopper_pair,hopper_shares,hopper_split
  skipped=${skipped:+$skipped,}$own
fi
! hangs gpu_attention_test || skipped=${skipped:+$skipped,}own
if [ -n "$skipped" ] && [ -z "${MANTISSA_TUNER_SKIP:-}" ]; then
  export MANTISSA_TUNER_SKIP=$skipped
  echo "a test hung or lost the GPU: what follows runs without its kernels (MANTISSA_TUNER_SKIP=$skipped)"
fi

# ---- speed ----
[ -z "$unpacking" ] || wait "$unpacking"
prepared
# Ways were chosen among the kernels of the programs of then: one that has been mended is to be tried again.
fresh "$build/cache/mantissa/cuda.jsonl" "$bin/mantissa_bench" "$bin/gpu_kernels_bench"
# Single kernels: products beside cuBLASLt, shares of copy bandwidth, attention, the host's time.
program bench_kernels gpu_kernels_bench && stage bench_kernels 180 "$bin/gpu_kernels_bench" "$bin/gpu_kernels_bench"
# The seconds without which a workload would have no proven result, and would only take them from others.
needs() {
  case $1 in
    bench_gpt2) echo 280 ;;
    bench_resnet512) echo 170 ;;
    bench_operators) echo 30 ;;  # each operator that was measured is kept
    *) echo 110 ;;
  esac
}
torch_reason='' torch_asked=''
# beside_torch STAGE LIMIT OPTIONS...: training beside PyTorch in one run (docs/performance.md), where one sees the GPU.
beside_torch() {
  local name=$1 limit=$2
  shift 2
  program "$name" mantissa_bench || return 0
  # A second time goes further: PyTorch's compiler finds its cache filled.
  [ "$(result_of "$name")" != "timed out" ] || rm "$report/stages/$name"
  due "$name" "$bin/mantissa_bench" || return 0
  if [ -z "$torch_asked" ]; then
    torch_asked=1
    python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || torch_reason="no PyTorch that sees a GPU"
  fi
  if [ -n "$torch_reason" ]; then skip "$name" "$torch_reason"; return 0; fi
  enough_time "$name" "$(needs "$name")" || return 0
  [ -n "$resume" ] || rm -f "$report/$name.json"
  fresh "$report/$name.json" "$bin/mantissa_bench"
  run "$name" "$limit" python3 -u bench/driver.py --worker "$bin/mantissa_bench" --device cuda \
    --out "$report/$name.json" --resume "$@"
  # 1: measured, with something that it complains of, which the table and the log show
  [ ! -s "$report/$name.json" ] || sed -i '1s/failed (1)/failed (incomplete)/' "$report/$name.done"
  finish "$name" "$bin/mantissa_bench"
}
for w in "${main_workloads[@]}"; do
  parts=workloads
  [ "$w" != gpt2 ] || parts="workloads memory"
  # shellcheck disable=SC2086
  beside_torch "bench_$w" 570 --workload "$w" --precision bf16 --seconds 25 --parts $parts
done

# ---- the other tests, beside the sanitizers ----
for t in "${alone_tests[@]}"; do alone "$t" 200; done
reduced=add,matmul,linear,softmax,cross_entropy,layer_norm,rms_norm,group_norm,conv2d,max_pool2d,embedding,scatter_add,sort,sum,dropout
operators=("MANTISSA_OP=$reduced")
[ -z "$full" ] || operators=(-u MANTISSA_OP)
for s in "${sanitizer_stages[@]}"; do
  program "$s" gpu_registry_test || continue
  due "$s" "$bin/gpu_registry_test" || continue
  if ! have compute-sanitizer; then skip "$s" "compute-sanitizer not found"; continue; fi
  begin "$s" 480 env "${operators[@]}" MANTISSA_TUNER=off \
    MANTISSA_TUNER_SKIP="cudnn${MANTISSA_TUNER_SKIP:+,$MANTISSA_TUNER_SKIP}" \
    compute-sanitizer --tool "${s#sanitizer_}" --error-exitcode 9 --print-limit 30 "$bin/gpu_registry_test"
done
together "${other_tests[@]}"
await 0

# ---- what else there is to know ----
beside_torch bench_operators 200 --parts operators
beside_torch bench_f32 500 --precision f32 --seconds 15 --parts workloads
write_report
echo "report: $report/report.txt and $report/report.json"
exit $failed
