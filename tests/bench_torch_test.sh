#!/bin/sh
# Runs tests/bench_torch_test.py, which needs PyTorch and NumPy; without them, says so and is skipped.
if ! python3 -c 'import numpy, torch' 2>/dev/null; then
  echo "skipped: bench_torch_test needs PyTorch"
  exit 77
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 "$(dirname "$0")/bench_torch_test.py"
