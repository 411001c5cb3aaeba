#!/usr/bin/env bash
# From a fresh Debian 12 machine to a tested build: installs what is missing, builds everything and runs all tests.
# Options after the script's name go to ctest: scripts/test.sh -R nn_test.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install_packages "$packages_to_build$packages_to_test"
configure_options=("-DMANTISSA_CUDA=$(cuda_choice)")  # compiled wherever the toolkit is; run only where a GPU is
need_space release 2200
build release
say "Testing (ready after $((SECONDS - started)) s)"
exec ctest --preset release -j "$(nproc)" "$@"
