#!/usr/bin/env bash
# Prints which statements of the mixed-precision contract, A1 to A52 (autocast) and G1 to G47 (loss scaler), have a
# test that passes: scripts/amp_contract.sh [BUILD_FOLDER]. A test carries the numbers of its statements as tags, [A31],
# or in front of its name, "A31 A32: ...". A statement counts when at least one test carries it and all of these pass.
# Those about CUDA run on the CPU, under tests/cuda_shim. G47 says that the CPU satisfies every G statement: it counts
# when all others do. Exit status: 0 when no test that carries a number fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:-$root/build/release}
results=$(mktemp)
trap 'rm -f "$results"' EXIT

for source in $(grep -lE 'TEST_CASE\(".*\b[AG][0-9]+\b' "$root"/tests/*_test.cpp); do
  name=$(basename "$source" .cpp)
  if [ ! -x "$build/$name" ]; then
    echo "$name is not built in $build: cmake --build $build --target $name" >&2
    exit 2
  fi
  "$build/$name" -r xml >>"$results" || true
done

awk '
  function attribute(name,    part) {
    if (!match($0, name "=\"[^\"]*\"")) return ""
    part = substr($0, RSTART, RLENGTH)
    sub(name "=\"", "", part)
    sub(/"$/, "", part)
    return part
  }
  /<TestCase / {
    title = attribute("name")
    numbers = ""
    if (match(title, /^([AG][0-9]+ )*[AG][0-9]+:/)) numbers = substr(title, 1, RLENGTH - 1)
    else if (match(title, /^(\[[AG][0-9]+\] *)+/)) numbers = substr(title, 1, RLENGTH)
    gsub(/[][]/, " ", numbers)
    tags = attribute("tags")
    gsub(/[][]/, " ", tags)
    numbers = numbers " " tags
  }
  /<OverallResult / && title != "" {
    passed = attribute("success") == "true"
    n = split(numbers, list, " ")
    delete counted
    for (i = 1; i <= n; ++i) {
      if (list[i] !~ /^[AG][0-9]+$/ || list[i] in counted) continue
      counted[list[i]] = 1
      if (!passed) failing[list[i]] = failing[list[i]] "\n        fails: " title
      ++tests[list[i]]
      if (!(list[i] in first)) first[list[i]] = title
    }
    title = ""
  }
  function part(letter, last,    i, key, have, open) {
    have = open = 0
    for (i = 1; i <= last; ++i) {
      key = letter i
      if (key == "G47" && !(key in tests) && !open) { tests[key] = have; first[key] = "all other statements about the loss scaler, on the CPU" }
      if (!(key in tests) || key in failing) ++open
      if (key in failing) { printf "%-4s FAILS%s\n", key, failing[key]; bad = 1 }
      else if (key in tests) { ++have; printf "%-4s %2d  %s\n", key, tests[key], first[key] }
      else { printf "%-4s  -\n", key; missing = missing " " key }
    }
    return have
  }
  END {
    print "statement, passing tests, the first of them"
    a = part("A", 52)
    g = part("G", 47)
    printf "\nautocast %d of 52, loss scaler %d of 47, together %d of 99\n", a, g, a + g
    if (missing != "") print "without a test:" missing
    exit bad
  }
' "$results"
