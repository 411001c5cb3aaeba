#!/usr/bin/env bash
# Makes build/arm64_root: the headers and libraries of this Debian release for ARM64, which the preset arm64 compiles and
# links against (cmake/arm64.cmake). apt downloads into build/arm64_apt; the system stays as it is, and no rights are needed.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tree=$root/build/arm64_root apt=$root/build/arm64_apt
# What the library and the tests are built with, and what the compiler's programs load.
packages=$(awk '$2 == "header" { print $1 }' <<<"$packages_to_build$packages_to_test"; echo libc6-dev libstdc++6 libgomp1)
if [ "$(cat "$tree/packages" 2>/dev/null)" = "$packages" ]; then
  say "build/arm64_root is there"
  exit
fi
command -v apt-get >/dev/null || stop "there is no apt-get here, and without it no packages for ARM64"

mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,log}
: >"$apt/status"  # nothing is installed: apt takes every package that another needs
arm64_apt() {
  apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt/state" \
    -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o Dir::Log="$apt/log" -o APT::Sandbox::User="" "$@"
}
say "Downloading packages for ARM64"
arm64_apt update
# shellcheck disable=SC2086  # names of packages
arm64_apt install --download-only --no-install-recommends $packages
rm -rf "$tree"
mkdir -p "$tree"
for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$tree"; done
echo "$packages" >"$tree/packages"
say "Made build/arm64_root, $(du -sh "$tree" | cut -f 1)"
