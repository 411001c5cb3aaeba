#!/bin/sh
# Benchmarks Mantissa against PyTorch: builds the worker, runs bench/driver.py, prints the table.
#   bench/run.sh                                everything, about 20 minutes on two cores
#   bench/run.sh --quick --workload resnet18    one workload, under 30 s
#   bench/run.sh --help                         the other options
# $MANTISSA_BUILD: the build folder (build/release). $PYTHON: the interpreter that has PyTorch; without one, a virtual
# environment in build/bench-venv with what bench/requirements.txt names, if it is there or --venv is the first
# argument.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${MANTISSA_BUILD:-$root/build/release}
venv=$root/build/bench-venv
python=${PYTHON:-python3}
fail() {
  echo "bench: $*" >&2
  exit 2
}

if [ "${1:-}" = --venv ]; then
  shift
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/python" -m pip install -q -r "$root/bench/requirements.txt" ||
    fail "pip could not install bench/requirements.txt"
fi
if [ -z "${PYTHON:-}" ] && [ -x "$venv/bin/python" ]; then python=$venv/bin/python; fi
command -v "$python" >/dev/null || fail "no $python: Python 3.11 with PyTorch is needed, see bench/requirements.txt"
"$python" -c 'import numpy, torch' 2>/dev/null ||
  fail "$python has no PyTorch: bench/run.sh --venv installs bench/requirements.txt"
if [ -z "${MANTISSA_WORKER:-}" ]; then
  [ -f "$build/CMakeCache.txt" ] || cmake -S "$root" --preset release >/dev/null || fail "cmake failed"
  cmake --build "$build" --target mantissa_bench >/dev/null ||
    fail "mantissa_bench does not build: cmake --build $build --target mantissa_bench"
fi
exec "$python" "$root/bench/driver.py" --worker "${MANTISSA_WORKER:-$build/mantissa_bench}" "$@"
