#!/bin/sh
# Checks that code compiled for a newer processor runs only when it was chosen: isa_test.sh READELF OBJECTS...
# Those objects must not offer inline functions to the rest of the program (cmake/isolate.sh), and must not
# initialise anything at start, which would run before the choice is made.
set -eu
readelf=$1
shift
failures=0
for object in "$@"; do
  found=$("$readelf" -sW "$object" |
    awk '$7 != "UND" && (($4 == "FUNC" && $5 == "WEAK") || $8 ~ /^_GLOBAL__sub_I/) { print $8 }')
  if [ -n "$found" ]; then
    echo "$object:"
    echo "$found"
    failures=$((failures + 1))
  fi
done
echo "$# objects checked, $failures leak"
[ "$failures" -eq 0 ]
