# Shared by the other scripts: messages, packages, configure and build. Sourced, not run.
# Invariant: nothing is installed when everything needed is already there, so that an ordinary user needs no rights.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
started=$SECONDS

say() { printf '\n== %s\n' "$*"; }
stop() { printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Debian package, then what proves that it is there: a command, a header, a CMake package or a file.
packages_to_build="
g++                   command  c++
cmake                 command  cmake
ninja-build           command  ninja
binutils              command  objcopy
libfmt-dev            header   fmt/core.h
libdnnl-dev           header   dnnl.hpp
zlib1g-dev            header   zlib.h
libpng-dev            header   png.h
libturbojpeg0-dev     header   turbojpeg.h
libutf8proc-dev       header   utf8proc.h
nlohmann-json3-dev    header   nlohmann/json.hpp
libxsimd-dev          header   xsimd/xsimd.hpp
libcli11-dev          header   CLI/CLI.hpp"
packages_to_test="
catch2                header   catch2/catch.hpp catch2/catch_all.hpp"
packages_for_clang="
clang-16              command  clang++-16
libomp-16-dev         file     /usr/lib/llvm-16/lib/libomp.so"
packages_for_arm64="
g++-aarch64-linux-gnu command  aarch64-linux-gnu-g++
qemu-user-static      command  qemu-aarch64-static"
packages_for_data="
dataset-fashion-mnist file     /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"

has_header() { echo "#include <$1>" | c++ -std=c++20 -fsyntax-only -x c++ - 2>/dev/null; }

is_there() {  # kind, then alternatives of which one is enough
  local kind=$1 name
  shift
  for name in "$@"; do
    case $kind in
      command) command -v "$name" >/dev/null && return ;;
      header) has_header "$name" && return ;;
      file) [ -e "$name" ] && return ;;
    esac
  done
  return 1
}

missing_of() {  # prints the packages of a table that are not there
  local package kind names
  while read -r package kind names; do
    # shellcheck disable=SC2086
    [ -z "$package" ] || is_there "$kind" $names || echo "$package"
  done <<<"$1"
}

# install_packages TABLE: brings in what is missing, or says what to install and stops.
install_packages() {
  local missing as_root=()
  missing=$(missing_of "$1" | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null; then
    stop "these are missing (names of Debian packages): $missing
There is no apt-get here. Please install them with the package manager of this system and run this again."
  fi
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || stop "please ask an administrator to run: apt-get install $missing"
    as_root=(sudo)
  fi
  say "Installing packages: $missing"
  "${as_root[@]}" apt-get update -q || say "apt-get update failed; trying with the package lists that are here"
  # shellcheck disable=SC2086
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
}

# ON where a CUDA toolkit of 12.4 or newer is found, else OFF.
cuda_choice() {
  local nvcc version
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  version=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\.[0-9]*\).*/\1/p')
  if [ -n "$version" ] && [ "$(printf '12.4\n%s\n' "$version" | sort -V | head -n 1)" = 12.4 ]; then echo ON; else echo OFF; fi
}

# need_space PRESET MEGABYTES: stops now if the build will not fit, not many minutes later when a program is linked.
need_space() {
  local built free
  built=$(du -sm "build/$1" 2>/dev/null | cut -f 1 || true)
  free=$(df -Pm . | awk 'NR == 2 { print $4 }')
  [ $((free + ${built:-0})) -ge "$2" ] || stop "the build needs $2 MB in $root/build, and $free MB are free there"
}

# build PRESET TARGETS...: configures and builds; no target means everything.
build() {
  local preset=$1
  shift
  say "Configuring ($preset)"
  cmake --preset "$preset" ${configure_options[@]+"${configure_options[@]}"}
  say "Building ($preset)"
  cmake --build --preset "$preset" ${1:+--target "$@"}
}

# The newest instruction set that this machine runs, of those that cmake/options.cmake knows.
newest_isa() {
  local levels
  levels=$(/lib64/ld-linux-x86-64.so.2 --help 2>/dev/null || true)
  case $levels in
    *"x86-64-v4 (supported"*) echo avx512 ;;
    *"x86-64-v3 (supported"*) echo avx2 ;;
    *) echo baseline ;;
  esac
}
