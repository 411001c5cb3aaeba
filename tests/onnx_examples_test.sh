#!/bin/sh
# The ONNX standard's own examples, of every operator, in nn::OnnxModel: onnx_examples_test.sh ONNX_MODEL_TEST. What the
# reader does not know it must refuse, everything else must be right. Skipped (exit status 77) where Python has not the
# package onnx with its examples.
set -eu
if ! python3 -c 'import onnx.backend.test.case.node' 2>/dev/null; then
  echo "skipped: python3 with onnx is needed"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/golden/onnx_examples.py" "$work" 2>/dev/null
MANTISSA_ONNX_EXAMPLES=$work "$1" "examples of other programs"
