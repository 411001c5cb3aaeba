#!/usr/bin/env bash
# scripts/gpu.sh without a GPU: gpu_script_test.sh SOURCE [TWINS]
# Every command that it would run on a GPU machine is run, with small fakes on PATH for nvidia-smi, nvcc, cmake, ninja
# and compute-sanitizer, for PyTorch, and for the programs that cmake would build. They write down how they were called.
# TWINS, a build folder: instead of fakes, its programs on the CPU shim, which have the same sources (minutes).
set -uo pipefail
source=$(cd "$1" && pwd) twins=${2:+$(cd "$2" && pwd)}  # it changes folders
if ! command -v python3 >/dev/null || ! command -v xz >/dev/null; then
  echo "skipped: python3 and xz are needed"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# ---- a copy of the repository's part that the script reads ----
repo=$work/repo
mkdir -p "$repo/scripts" "$repo/tests" "$repo/bench" "$work/bin" "$work/torch/torch" "$work/pack"
cp "$source"/scripts/gpu.sh "$source"/scripts/gpu_report.py "$repo/scripts/"
for t in "$source"/tests/cuda_*_test.cpp; do : >"$repo/tests/$(basename "$t")"; done
# shellcheck disable=SC2016
echo 'echo "resources $*" >>"$CALLS"' >"$repo/tests/cuda_resources_test.sh"
export CALLS=$work/calls TWINS=$twins FAKES=$work PYTHONDONTWRITEBYTECODE=1
: >"$CALLS"

fake() { cat >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
fake nvidia-smi <<'END'
#!/bin/sh
[ ! -e "$FAKES/no_gpu" ] || exit 9
case $* in
  *=name*) cat "$FAKES/gpu_name" ;;
  *=driver_version*) echo 1.2.3 ;;
  *=compute_cap*) echo 9.0 ;;
  *clocks.sm*) echo "1980 MHz" && exec sleep 600 ;;
  -q) cat "$FAKES/gpu_state" ;;
esac
END
echo "Fake GPU" >"$work/gpu_name"
echo "    GPU Recovery Action                   : None" >"$work/gpu_state"
fake nvcc <<'END'
#!/bin/sh
echo "Cuda compilation tools, release 13.0, V13.0.1"
END
fake ninja </dev/null
fake timeout <<END
#!/bin/bash
[ ! -e "\$FAKES/hurry" ] || set -- -k 1 2 "\${@:4}"  # as if the seconds that are left were over
exec $(command -v timeout) "\$@"
END
fake cmake <<'END'
#!/bin/bash
echo "cmake $*" >>"$CALLS"
[ "$1" = --build ] || { mkdir -p "${4:?}"; exit 0; }
build=$2 status=0
while [ $# -gt 0 ] && [ "$1" != --target ]; do shift; done
shift
for target; do
  [ "$target" != -- ] || break
  if [ -e "$FAKES/broken_$target" ]; then rm -f "$build/$target" && status=1 && continue; fi
  [ ! -e "$build/$target" ] || continue
  case $target in
    gpu_*_test) twin=$TWINS/cuda_${target#gpu_} ;;
    gpu_kernels_bench) twin="$TWINS/cuda_bench_check --check" ;;
    *) twin=$TWINS/shim_$target ;;
  esac
  [ -n "$TWINS" ] || twin=
  cat >"$build/$target" <<PROGRAM
#!/bin/bash
echo "$target \$* \${MANTISSA_OP_PART:+part=\$MANTISSA_OP_PART }tuner=\${MANTISSA_TUNER:-on} operators=\${MANTISSA_OP:-all}\${MANTISSA_TUNER_SKIP:+ skip=\$MANTISSA_TUNER_SKIP}\${MANTISSA_CUDA_OVERLAP:+ overlap=\$MANTISSA_CUDA_OVERLAP}" >>"\$CALLS"
[ ! -e "\$FAKES/kill_$target" ] || kill -9 \$\$
part=\${MANTISSA_OP_PART:+_\${MANTISSA_OP_PART%/*}}
[ ! -e "\$FAKES/hang_$target\$part" ] || sleep 60
[ ! -e "\$FAKES/fail_$target\$part" ] || exit 1
[ ! -e "\$FAKES/blind_$target" ] || echo "warning: no GPU and no shim: skipped"
[ ! -e "\$FAKES/old_$target" ] || echo "warning: no Hopper GPU and no shim: not tested"
[ -z "$twin" ] || exec $twin "\$@"
case $target in
  gpu_registry_test) echo "operators on cuda: 25 of 25; without a kernel: 0:" ;;
  gpu_kernels_bench)
    echo "gemm bf16  4096  best own kernel (hopper_pair 256) against best cuBLASLt plan (cublaslt 3): 0.977x [0.970, 0.981]"
    echo "softmax bf16                             60.0 us     4000 GB/s   93.1 % of copy"
    echo "softmax backward bf16                    80.0 us     4000 GB/s   81.2 % of copy"
    echo "host time, add, recorded                    2.25 us" ;;
esac
PROGRAM
  chmod +x "$build/$target"
done
exit $status
END
fake compute-sanitizer <<'END'
#!/bin/sh
echo "compute-sanitizer $1 $2" >>"$CALLS"
while [ "${1#-}" != "$1" ]; do shift; [ "${1#-}" != "$1" ] || shift; done
"$@" && echo "========= ERROR SUMMARY: 0 errors"
END
cat >"$work/torch/torch/__init__.py" <<'END'
class cuda:
    is_available = staticmethod(lambda: True)
END
cat >"$repo/bench/driver.py" <<'END'
import json, os, sys, time
arguments = sys.argv[1:]
with open(os.environ["CALLS"], "a") as f:
    f.write("driver " + " ".join(arguments) + "\n")
value = lambda name: arguments[arguments.index(name) + 1] if name in arguments else None
side = lambda ms: {"ms": {"median": ms}, "failed": None}
if "--prepare" in arguments:
    sys.exit()
try:
    with open(value("--out")) as f:
        known = json.load(f)["workloads"]
except OSError:
    known = {}
name = value("--workload")
if "--resume" in arguments and name in known and "unproven" not in known[name]:
    sys.exit()
w = {"sides": {"mantissa-graph-bf16": side(10.0), "mantissa-bf16": side(12.0), "amp": side(25.0),
               "compile-amp": side(14.0)},
     "ratios": {"mantissa-graph-bf16 / amp": {"ratio": 2.5}, "mantissa-graph-bf16 / compile-amp": {"ratio": 1.4}},
     "items_per_step": 8192, "memory": {"amp": {"reserved": 2e10}, "mantissa-bf16": {"reserved": 1e10}}}  # fmt: skip
if os.path.exists(os.environ["FAKES"] + "/cheat"):
    for name_of_side in ("mantissa-graph-bf16", "mantissa-bf16"):
        w["sides"][name_of_side]["failed"] = "proof 4"
hang = os.path.exists(os.environ["FAKES"] + "/hang_driver")
if hang:
    w["unproven"] = "interrupted"
with open(os.environ["CALLS"], "a") as f:
    f.write(f"measured {name}\n")
with open(value("--out"), "w") as f:
    json.dump({"workloads": {name: w}}, f)
time.sleep(60 * hang)
END

# ---- a pack of dependencies ----
mkdir -p "$work/prefix/lib/cmake/fmt" "$work/prefix/include" "$work/pack/data/mnist"
: >"$work/prefix/lib/cmake/fmt/fmt-config.cmake"
tar -C "$work/prefix" -cf - include lib | xz >"$work/pack/deps.tar.xz"
echo "commit 0123456789ab, compiler" >"$work/pack/contents.txt"

ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$work/bin/python3"  # not what chooses one of several
export PATH=$work/bin:$PATH PYTHONPATH=$work/torch
unset MANTISSA_COMMIT MANTISSA_TUNER MANTISSA_TUNER_SKIP MANTISSA_OP MANTISSA_DATA CPATH LIBRARY_PATH
cd "$work" || exit 1
# gpu STATUS OPTIONS...: runs the script; its output is in $work/said, what was called in $CALLS.
gpu() {
  local expected=$1 status
  shift
  : >"$CALLS"
  bash "$repo/scripts/gpu.sh" --deps "$work/pack" --out "$work/out" "$@" >"$work/said" 2>&1
  status=$?
  [ "$status" -eq "$expected" ] || { fail "gpu.sh $*: status $status, expected $expected" && tail -n 30 "$work/said"; }
}
said() { grep -qE -e "$1" "$work/said" || { fail "not said: $1" && tail -n 30 "$work/said"; }; }
reported() {
  grep -qE -e "$1" "$work/out/report.txt" || { fail "not in the report: $1" && head -n 60 "$work/out/report.txt"; }
}
called() { grep -qE -e "$1" "$CALLS" || { fail "not called: $1" && cat "$CALLS"; }; }
not_called() { ! grep -qE -e "$1" "$CALLS" || { fail "called: $1" && cat "$CALLS"; }; }

if [ -n "$twins" ]; then
  gpu 0 --only build tests bench_kernels
  cat "$work/said"
  exit $((failures > 0))
fi

# ---- everything, once ----
gpu 0 --seconds 1000
called "^cmake -S . .*-DMANTISSA_CUDA=ON .*-DCMAKE_CUDA_ARCHITECTURES=90a "
called " -Dfmt_DIR=$repo/build/gpu/deps/lib/cmake/fmt -DCMAKE_PREFIX_PATH=$repo/build/gpu/deps"
called "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags .*-Wl,-rpath,$repo/build/gpu/deps/lib"
called '--target gpu_registry_test$'
called '--target .*gpu_training_test.* gpu_kernels_bench mantissa_bench -- -k 0$'
for t in "$source"/tests/cuda_*_test.cpp; do
  t=$(basename "$t" .cpp)
  [ "$t" = cuda_registry_test ] || called "^gpu_${t#cuda_} -d yes tuner=off operators=all$"
done
for i in {1..12}; do called "^gpu_registry_test -d yes part=$i/12 tuner=off operators=all$"; done
called '^driver .*--prepare --workload mlp128 cnn resnet512 gpt2 '
[ -s "$repo/build/gpu/report/clocks.csv" ] || fail "the clocks were not written down"
for tool in memcheck racecheck initcheck synccheck; do called "^compute-sanitizer --tool $tool"; done
called '^gpu_registry_test  tuner=off operators=add,matmul,'
called '^gpu_registry_test  tuner=on operators=matmul,linear,linear_act,conv2d,conv2d_relu,scaled_dot_product_attention$'
called '^gpu_kernels_bench '
called '^resources . '
for w in mlp128 cnn gpt2 resnet512; do
  memory=$([ $w != gpt2 ] || echo ' memory')
  called "^driver .*--device cuda .*--workload $w --precision bf16 .*--parts workloads$memory$"
done
python3 - "$source/bench" "$CALLS" <<'END' || fail "the true driver takes other options"
import sys
sys.path.insert(0, sys.argv[1])
import driver
for line in open(sys.argv[2]):
    if line.startswith("driver "):
        sys.argv = line.split()
        driver.arguments()
END
called '^driver .*--parts operators$'
called '^driver .*--precision f32 '
reported '^GPU: +Fake GPU, compute capability 9.0$'
reported '^commit: +0123456789ab \(when packed\)$'
reported 'operators? with CUDA kernels .* not measured$'
reported 'registry, CPU against CUDA.* passed, 300 of 300 operators$'
reported 'sanitizer reports.* memcheck 0, racecheck 0, initcheck 0, synccheck 0$'
reported 'captured steps.* passed$'
reported 'MNIST MLP batch 128.* eager AMP 2.50x \(amp\) / best compiled 1.40x \(compile-amp\); mantissa-graph-bf16 10.0'
reported 'GPT-2 124M.* 819k tokens/s$'
reported 'cuBLASLt.* bf16 4096: 0.977x \[0.970, 0.981\]$'
reported 'copy bandwidth.* softmax bf16 93.1 %, softmax backward bf16 81.2 %$'
reported 'host time.* 2.25 us$'
reported 'peak reserved memory.* mantissa-bf16 0.50x'
python3 - "$work/out/report.json" <<'END' || fail "report.json"
import json, sys
report = json.load(open(sys.argv[1]))
assert len(report["table"]) == 15 and all(s["result"] == "passed" for s in report["stages"]), report
END
[ "$(tar -tzf "$work/out/logs.tar.gz" | grep -c '_test.log$')" -ge 8 ] || fail "logs.tar.gz lacks logs"
[ "$(find "$work/out" -type f | wc -l)" -le 8 ] || fail "more than eight files come back"
[ -e "$repo/build/gpu/deps/lib/cmake/fmt/fmt-config.cmake" ] || fail "dependencies were not unpacked"
[ -d "$repo/build/gpu/data/mnist" ] || fail "data sets were not brought into place"
[ "$(head -n 1 "$CALLS" | cut -d ' ' -f 1)" = cmake ] || fail "the build does not come first"
[ "$(grep -m 3 '^gpu_' "$CALLS" | cut -d ' ' -f 1 | tr '\n' ' ')" = "gpu_gemm_test gpu_capture_test gpu_registry_test " ] ||
  fail "the tests that say most in the shortest time do not come first"
[ "$(grep -m 2 '^driver .*--parts' "$CALLS" | sed 's/.*--workload \([a-z0-9]*\) .*/\1/' | tr '\n' ' ')" = "mlp128 cnn " ] ||
  fail "speed is not measured in the order of the time that it takes"
[ "$(grep -c '^gpu_memory_test' "$CALLS")" -eq 1 ] || fail "a test that runs by itself does not run once"

# ---- again: nothing that is done is repeated, until its program is built anew ----
gpu 0 --resume
not_called '^(gpu_|driver|compute-sanitizer)'
said 'gpu_gemm_test .*\(kept\)'
gpu 0 --resume  # the sources are those of the call before
said '^nothing is to be built'
not_called .
touch "$repo/tests/cuda_new_test.cpp"
gpu 0 --resume
called '^cmake --build .*gpu_new_test'
called '^gpu_new_test'
gpu 0 --resume --arch 100
called '^cmake -S .*ARCHITECTURES=100'
gpu 0 --resume
called '^cmake -S .*ARCHITECTURES=90a'
not_called '^gpu_'
touch "$work/fail_gpu_gemm_test"
sleep 0.01
rm "$repo/build/gpu/gpu_gemm_test"
gpu 1 --resume  # a failure stops no other stage, and is kept too
called '^gpu_gemm_test'
not_called '^gpu_attention_test'
said '^gpu_gemm_test +failed'
said '^report:'
gpu 1 --resume
not_called '^gpu_gemm_test'
rm "$work/fail_gpu_gemm_test"
gpu 0 --only gpu_gemm_test
called '^gpu_gemm_test'
not_called '^(cmake|gpu_registry_test|driver)'
reported '^gpu_attention_test +passed'
gpu 2 --only gpu_nothing
said 'no stage is called gpu_nothing'

# ---- time ends in the middle; the next call goes on ----
touch "$work/hang_gpu_attention_test"
rm -rf "$repo/build/gpu/report/stages"
gpu 1 --seconds 6 --only gpu_registry_test gpu_attention_test bench_mlp128
reported '^gpu_registry_test +passed'
reported '^gpu_attention_test +cut off'
reported '^bench_mlp128 +no time'
reported 'MNIST MLP batch 128'
# shellcheck disable=SC2034,SC2317  # run uses them
(
  eval "$(sed -n '/^run() {/,/^}/p' "$repo/scripts/gpu.sh")"
  report=$work
  left() { echo 0; }
  run nothing 60 sleep 30
)
[ "$(head -n 1 "$work/nothing.done")" = "cut off" ] || fail "what begins with no second left: $(cat "$work/nothing.done")"
rm "$work/hang_gpu_attention_test"
gpu 0 --resume --only gpu_registry_test gpu_attention_test bench_mlp128
not_called '^gpu_registry_test'
called '^gpu_attention_test'
called '^driver .*mlp128'

# ---- training that the end of the time cuts off: what was measured is shown, and is measured again ----
touch "$work/hang_driver" "$work/hurry"
gpu 1 --seconds 115 --only bench_mlp128
reported '^bench_mlp128 +cut off'
reported 'MNIST MLP batch 128.* 10.0000 ms a step, NOT PROVEN \(interrupted\)$'
rm "$work/hang_driver" "$work/hurry"
gpu 1 --seconds 100 --resume --only bench_mlp128  # too little for a result, which would cost others theirs
reported '^bench_mlp128 +no time'
not_called '^driver'
gpu 0 --resume --only bench_mlp128
called '^measured mlp128'
reported 'MNIST MLP batch 128.* 10.0000 ms a step$'
sed -i '1s/.*/timed out/' "$repo/build/gpu/report/stages/bench_mlp128"
gpu 0 --resume --only bench_mlp128  # what timed out finds the compiler's cache filled
called '^driver'

touch "$work/cheat"
gpu 0 --only bench_mlp128
reported 'no proven time: mantissa-graph-bf16: proof 4 \(10.0000 ms a step until then\); '
rm "$work/cheat"
gpu 0 --only bench_mlp128

# ---- what another program measured is not taken for this one's ----
echo '# mended' >>"$repo/build/gpu/mantissa_bench"
echo chosen | tee "$repo/build/gpu/cache/mantissa/cuda.jsonl" >"$repo/build/gpu/report/cuda.jsonl"
gpu 0 --resume --only bench_mlp128 tuned
called '^measured mlp128'
[ ! -e "$repo/build/gpu/cache/mantissa/cuda.jsonl" ] || fail "the tuner goes on from choices among other kernels"
[ -e "$repo/build/gpu/report/cuda.jsonl" ] || fail "choices of the same program were removed"
gpu 0 --only bench_mlp128  # without --resume it is measured again
called '^measured mlp128'

# ---- captured steps that fail are recorded without overlap from then on ----
touch "$work/fail_gpu_capture_test"
gpu 1 --only gpu_capture_test bench_kernels
called '^gpu_kernels_bench .*overlap=0'
rm "$work/fail_gpu_capture_test"
gpu 0 --only gpu_capture_test bench_kernels
called '^gpu_kernels_bench'
not_called 'overlap'

# ---- a part of the registry that faults or hangs costs the others nothing ----
touch "$work/fail_gpu_registry_test_3"
gpu 1 --only gpu_registry_test
reported '^gpu_registry_test +failed \(1\)'
reported 'registry, CPU against CUDA.* failed \(1\), 275 of 275 operators, of 1 of 12 parts nothing is known$'
rm "$work/fail_gpu_registry_test_3"
touch "$work/hang_gpu_registry_test_3"
gpu 1 --seconds 3 --only gpu_registry_test
reported '^gpu_registry_test +cut off'
[ "$(grep -c '^operators on cuda' "$repo/build/gpu/report/gpu_registry_test.log")" -eq 11 ] ||
  fail "the log lacks parts of the registry"
rm "$work/hang_gpu_registry_test_3"

# ---- what hangs by itself, or loses the GPU, is left out of what is timed ----
printf 'timed out\n90\n\n' >"$repo/build/gpu/report/stages/gpu_gemm_test"
gpu 0 --only bench_kernels
called '^gpu_kernels_bench .* skip=mma,hopper$'
said 'without its kernels .MANTISSA_TUNER_SKIP=mma,hopper'
echo '0.1 s: [A51] a sum' >"$repo/build/gpu/report/gpu_gemm_test.log"
gpu 0 --only bench_kernels
called '^gpu_kernels_bench .* skip=hopper_pair,hopper_shares,hopper_split$'
gpu 0 --only gpu_gemm_test bench_kernels
called '^gpu_kernels_bench .*operators=all$'
printf 'timed out\n120\n\n' >"$repo/build/gpu/report/stages/tuned"
gpu 0 --only bench_kernels
called '^gpu_kernels_bench .* skip=cudnn,cublaslt_epilogue$'
gpu 0 --only tuned

# ---- what does not build stops what needs it, and nothing else ----
touch "$work/broken_gpu_data_test"
gpu 1 --resume --only build gpu_data_test gpu_optim_test
reported '^gpu_data_test +skipped: gpu_data_test was not built'
reported '^gpu_optim_test +passed'
rm "$work/broken_gpu_data_test"

# ---- new times of old sources are not taken for changes ----
old=$(stat -c %Y "$repo/tests/cuda_gemm_test.cpp")
touch -d '+1 hour' "$repo/tests/cuda_gemm_test.cpp"
echo '// changed' >"$repo/tests/cuda_data_test.cpp"
touch -d '+1 hour' "$repo/tests/cuda_data_test.cpp"
gpu 0 --resume --only configure
[ "$(stat -c %Y "$repo/tests/cuda_gemm_test.cpp")" = "$old" ] || fail "an unchanged source kept its new time"
[ "$(stat -c %Y "$repo/tests/cuda_data_test.cpp")" != "$old" ] || fail "a changed source got its old time"

# ---- a program that finds no GPU tested nothing ----
touch "$work/blind_gpu_gemm_test" "$work/old_gpu_norm_test"
gpu 1 --only gpu_norm_test gpu_gemm_test gpu_optim_test bench_mlp128
reported '^gpu_gemm_test +failed \(saw no GPU\)'
reported '^gpu_optim_test +skipped: no GPU'
reported '^bench_mlp128 +skipped: no GPU'
said 'CUDA finds no GPU'
not_called '^(gpu_optim_test|driver)'
rm "$work/blind_gpu_gemm_test"
gpu 1 --resume --only gpu_norm_test gpu_gemm_test gpu_optim_test
reported '^gpu_gemm_test +passed'
reported '^gpu_norm_test +failed \(saw no Hopper GPU\)'
reported '^gpu_optim_test +passed'
rm "$work/old_gpu_norm_test"

# ---- a program that is killed, as for memory, did not take too long; a GPU that is to be reset is left alone ----
touch "$work/kill_gpu_gemm_test"
gpu 1 --only gpu_gemm_test gpu_optim_test
reported '^gpu_gemm_test +failed \(137\)'
reported '^gpu_optim_test +passed'
echo "    GPU Recovery Action                   : Reset" >"$work/gpu_state"
gpu 1 --only gpu_gemm_test gpu_optim_test
said "the GPU's recovery action is Reset"
reported '^gpu_optim_test +skipped: no GPU'
echo "    GPU Recovery Action                   : None" >"$work/gpu_state"
rm "$work/kill_gpu_gemm_test"

# ---- what another GPU gave is not this one's ----
gpu 0 --only gpu_gemm_test bench_mlp128
echo "Another GPU" >"$work/gpu_name"
gpu 0 --resume --only gpu_gemm_test bench_mlp128
called '^gpu_gemm_test'
called '^measured mlp128'
reported '^gpu_gemm_test +passed'
! grep -q gpu_optim_test "$work/out/report.txt" || fail "a result of another GPU is reported"

# ---- programs that came built ----
rm -rf "$repo/build/gpu"
from=$work/programs
mkdir -p "$from/ptxas" "$work/torch/nvidia/cudnn/lib"
mapfile -t programs < <(bash "$repo/scripts/gpu.sh" --programs)
cmake --build "$from" --target "${programs[@]}"
: >"$from/libmantissa.so.0"
echo 90a >"$from/arch"
echo "a compiler" >"$from/compilers"
touch "$work/torch/nvidia/cudnn/lib/"lib{cudnn,cudnn_graph,other}.so.9
fake ldd <<'END'
#!/bin/sh
[ ! -e "$FAKES/no_libc" ] || echo "	libc.so.6: version not found"
[ -e "$FAKES/repo/build/gpu/cuda/libcudnn.so.9" ] || echo "	libcudnn.so.9 => not found"
END
pack_programs() {
  bash "$repo/scripts/gpu.sh" --sources >"$from/sources"
  tar -C "$from" -cf - . | xz >"$work/pack/programs.tar.xz"
}
pack_programs
gpu 0
not_called '^cmake -(S|-build)'
called "^resources . $repo/build/gpu/programs/ptxas$"
called '^driver --worker .*/programs/mantissa_bench .*--prepare'
called '^gpu_optim_test -d yes'
called '^measured gpt2'
reported '^programs: +came built, for sm_90a by a compiler$'
[ -e "$repo/build/gpu/cuda/libcudnn_graph.so.9" ] || fail "a library of Python's packages was not found"
gpu 0 --resume
not_called '^(cmake -(S|-build)|gpu_[a-z_]*_test -d|driver .*--parts)'
echo mended >>"$from/libmantissa.so.0"  # which all programs need
pack_programs
gpu 0 --resume --only gpu_optim_test
called '^gpu_optim_test -d yes'
touch "$work/no_libc"
gpu 0 --only configure
said 'do not start here, and are built anew: .*version not found'
called '^cmake -S'
rm "$work/no_libc"
gpu 0 --arch 100 --only configure
said 'came built for sm_90a, not for sm_100'
called '^cmake -S'
echo '// mended' >>"$repo/tests/cuda_data_test.cpp"
gpu 2
said 'compiled from other sources than these: pack them again'
not_called '^(cmake -(S|-build)|gpu_|driver)'
rm "$work/pack/programs.tar.xz"
gpu 0 --only build gpu_optim_test
called '^cmake --build'
[ ! -e "$repo/build/gpu/programs" ] || fail "programs that did not come are still there"

# ---- no GPU ----
touch "$work/no_gpu"
rm -rf "$repo/build/gpu/report/stages"
gpu 0 --only gpu_gemm_test bench_kernels
reported '^gpu_gemm_test +skipped: no GPU'
reported '^GPU: +none'
not_called '^gpu_gemm_test'

echo "$failures failures"
[ "$failures" -eq 0 ]
