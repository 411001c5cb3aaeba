#!/bin/sh
# Holds what ptxas says of every kernel against cuda/kernel_resources.txt: registers, stack, spills, shared memory.
#   cuda_resources_test.sh SOURCE OBJECT_FOLDER [--update]
# A kernel is one line whatever its template arguments, with the most that any of its instances uses. More than the table
# says is a failure, and so is a kernel that is not in it; --update writes the table anew. Bytes are per thread, but for shared.
# So is advice of ptxas that it will not do what a kernel was written for: products by wgmma one after the other, setmaxnreg ignored.
set -eu
source=$1 objects=$2 update=${3:-}
table=$source/cuda/kernel_resources.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$objects" && find . -name '*.ptxas' | sort) | while read -r file; do
  [ ! -e "$source/${file%.o.ptxas}" ] || echo "$objects/$file"  # not of sources that were since deleted
done >"$work/files"
[ -s "$work/files" ] || { echo "no object in $objects was compiled by nvcc" >&2; exit 1; }

advice=$(xargs grep -hE '\(C75[0-9][0-9]\)' <"$work/files" | c++filt)
[ -z "$advice" ] || { echo "$advice" && exit 1; }

# ptxas writes, for every kernel: "Compiling entry function 'NAME' for 'sm_90a'", "N bytes stack frame, N bytes spill stores,
# N bytes spill loads", "Used N registers, ..., N bytes smem". The most of all instances of a kernel in a file is printed.
while read -r file; do
  c++filt <"$file" | awk -v file="$(basename "$file" .o.ptxas | sed 's/\.cu$//; s/_[0-9]*$//')" '
    /Compiling entry function/ {
      name = $0
      sub(/.*entry function ./, "", name)
      sub(/. for .sm_.*/, "", name)
      gsub(/\(anonymous namespace\)::/, "", name)
      sub(/^void /, "", name)
      sub(/[<(].*/, "", name)
      sub(/.*::/, "", name)
    }
    /bytes stack frame/ { stack = $1; spill = $5 + $9 }
    /Used [0-9]+ registers/ {
      shared = 0
      for (i = 1; i <= NF; ++i) {
        if ($i == "registers,") registers = $(i - 1)
        if ($i ~ /^smem/) shared = $(i - 2)
      }
      print file, name, registers, stack, spill, shared
    }'
done <"$work/files" | awk '
  {
    key = $1 " " $2
    if (!(key in seen)) { seen[key] = 1; for (i = 3; i <= 6; ++i) most[key, i] = 0 }
    for (i = 3; i <= 6; ++i) if ($i + 0 > most[key, i] + 0) most[key, i] = $i
    ++instances
  }
  END { for (key in seen) print key, most[key, 3], most[key, 4], most[key, 5], most[key, 6] }' | sort >"$work/now"

if [ "$update" = --update ]; then
  {
    echo "# The most any instance of a kernel uses on sm_90a, as ptxas says; tests/cuda_resources_test.sh --update writes this file."
    echo "# file kernel registers stack spilled shared (bytes)"
    cat "$work/now"
  } >"$table"
  echo "$(grep -c . "$work/now") kernels written to $table"
  exit 0
fi
grep -v '^#' "$table" | sort >"$work/before"
awk '
  NR == FNR { for (i = 3; i <= 6; ++i) limit[$1 " " $2, i] = $i; listed[$1 " " $2] = 1; next }
  {
    key = $1 " " $2
    ++kernels
    if ($5 > 0) ++spilling
    if (!(key in listed)) { print key ": not in the table (registers " $3 ", stack " $4 ", spilled " $5 ", shared " $6 ")"; ++bad; next }
    split("file kernel registers stack spilled shared", what, " ")
    for (i = 3; i <= 6; ++i) {
      if ($i + 0 > limit[key, i] + 0) { print key ": " what[i] " " $i ", the table allows " limit[key, i]; ++bad }
    }
  }
  END {
    print kernels + 0 " kernels, " spilling + 0 " with spills, " bad + 0 " beyond the table"
    exit bad > 0
  }' "$work/before" "$work/now"
