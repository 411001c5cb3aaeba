#!/bin/sh
# Runs tests/bench_test.py, which needs Python 3.9 with its standard library; without it, says so and is skipped.
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
  echo "skipped: bench_test needs python3 3.9 or newer"
  exit 77
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 "$(dirname "$0")/bench_test.py"
