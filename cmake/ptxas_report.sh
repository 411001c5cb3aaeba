#!/bin/sh
# Compiler launcher of .cu files: runs the compiler and keeps what ptxas says of each kernel (registers, stack,
# spills, shared memory) in OBJECT.ptxas, where tests/cuda_resources_test.sh reads it. Other messages pass through.
set -eu
object=''
previous=''
for argument in "$@"; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done
status=0
"$@" 2>"$object.messages" || status=$?
grep -E '^ptxas info|bytes stack frame' "$object.messages" >"$object.ptxas" || true
grep -vE '^ptxas info|bytes stack frame' "$object.messages" >&2 || true
rm -f "$object.messages"
exit $status
