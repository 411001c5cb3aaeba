#!/bin/sh
# Runs tests/bench_cuda_test.py on the benchmark's worker, which is linked with the CPU shim: bench_cuda_test.sh WORKER
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
  echo "skipped: bench_cuda_test needs python3 3.9 or newer"
  exit 77
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 "$(dirname "$0")/bench_cuda_test.py" "$1"
