#!/bin/sh
# What nn::save_onnx writes, in ONNX Runtime: onnx_runtime_test.sh ONNX_TEST. Every operator and some nets, whose results
# there must be ours. Skipped (exit status 77) where Python has not the packages onnx and onnxruntime.
set -eu
if ! python3 -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
  echo "skipped: python3 with onnx and onnxruntime is needed"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
MANTISSA_ONNX=$work "$1" >"$work/log" || { cat "$work/log"; exit 1; }
PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/golden/onnx_runtime.py" "$work"
