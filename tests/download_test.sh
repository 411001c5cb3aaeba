#!/bin/sh
# scripts/download.sh without a network: download_test.sh SOURCE
# What is missing or damaged is said; a mirror on this machine serves Fashion-MNIST where Debian's package is installed.
set -eu
script=$1/scripts/download.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

expect() {  # exit code, word of the output, arguments
  expected=$1 word=$2
  shift 2
  code=0
  "$script" "$@" >"$work/out" 2>&1 </dev/null || code=$?
  if [ "$code" -ne "$expected" ] || ! grep -q -e "$word" "$work/out"; then
    echo "FAILED: $*: exit code $code, expected $expected and $word"
    cat "$work/out"
    failures=$((failures + 1))
  fi
}

expect 0 'SET' --help
expect 2 'SET'
expect 1 'unknown set' imagenet
expect 1 'cifar-10-binary.tar.gz is not there' cifar10 --to "$work" --offline
packaged=/usr/share/datasets/fashion-mnist
if [ -d "$packaged" ] && command -v curl >/dev/null; then
  MANTISSA_MIRROR=file:///usr/share/datasets
  export MANTISSA_MIRROR
  expect 0 'fetched and checked' fashion-mnist --to "$work"
  expect 0 'there and intact' fashion-mnist --to "$work" --offline
  echo damaged >"$work/fashion-mnist/t10k-labels-idx1-ubyte.gz"
  expect 1 'is damaged' fashion-mnist --to "$work" --offline
  expect 0 'will be replaced' fashion-mnist --to "$work"
else
  echo "skipped fetching: dataset-fashion-mnist or curl is not installed"
fi

echo "$failures failures"
[ "$failures" -eq 0 ]
