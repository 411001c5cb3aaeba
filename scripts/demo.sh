#!/usr/bin/env bash
# From a fresh Debian 12 machine to a trained network: installs what is missing, builds the library and the MNIST
# sample, and trains the convolutional network on Fashion-MNIST in mixed precision (bf16) on the CPU.
# Options after the script's name go to the trainer: scripts/demo.sh --epochs 1. See build/release/mnist --help.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install_packages "$packages_to_build"
# The pictures are no reason to stop: without them the trainer draws its own and says so.
(install_packages "$packages_for_data") || say "Fashion-MNIST could not be installed: training on generated pictures instead"
configure_options=(-DMANTISSA_TESTS=OFF -DMANTISSA_BENCH=OFF)
build release mnist
say "Training (ready after $((SECONDS - started)) s)"
exec build/release/mnist --model cnn --dataset fashion --amp bf16 "$@"
