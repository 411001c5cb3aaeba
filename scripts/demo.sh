#!/usr/bin/env bash
# From a fresh Debian 12 machine to a trained network: installs what is missing, builds the library and the MNIST
# sample, and trains the convolutional network on Fashion-MNIST in mixed precision (bf16) on the CPU.
# It is built for this machine's instruction set alone: a quarter fewer files to compile. Options after the script's
# name go to the trainer: scripts/demo.sh --epochs 1. See build/demo/mnist --help.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install_packages "$packages_to_build"
# The pictures are no reason to stop: without them the trainer draws its own and says so.
(install_packages "$packages_for_data") || say "Fashion-MNIST could not be installed: training on generated pictures instead"
configure_options=(-DMANTISSA_TESTS=OFF -DMANTISSA_BENCH=OFF "-DMANTISSA_ONE_ISA=$(newest_isa)")
build demo mnist
say "Training (ready after $((SECONDS - started)) s)"
exec build/demo/mnist --model cnn --dataset fashion --amp bf16 "$@"
