#!/usr/bin/env bash
# Builds the library and all tests with AddressSanitizer and UndefinedBehaviorSanitizer and runs them;
# "scripts/sanitize.sh tsan" uses ThreadSanitizer instead. Further options go to ctest.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=asan
case ${1:-} in
  asan | tsan) preset=$1 && shift ;;
esac
install_packages "$packages_to_build$packages_to_test"
build "$preset"
say "Testing with sanitizers (ready after $((SECONDS - started)) s)"
exec ctest --preset "$preset" -j "$(nproc)" "$@"
