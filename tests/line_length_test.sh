#!/bin/sh
# No line of C++ is longer than 120 columns: line_length_test.sh SOURCE
# The tables of tests/golden are left alone: a row of theirs is a case, which one line holds better than three.
set -eu
cd "$1"
long=$(find . \( -path './build*' -o -path ./.git -o -path ./tests/golden \) -prune -o \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' \) -exec grep -HnE '^.{121,}' {} + || true)
[ -z "$long" ] && exit 0
echo "$long" | cut -c1-160
echo "longer than 120 columns; .clang-format knows the style: git clang-format"
exit 1
