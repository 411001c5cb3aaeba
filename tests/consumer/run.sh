#!/bin/sh
# Installs a finished build and uses it as a stranger would: run.sh CMAKE SOURCE BUILD COMPILER BUILD_TYPE FLAGS
# find_package with nothing but CMAKE_PREFIX_PATH, then pkg-config, then add_subdirectory (configured and compiled only).
set -eu
cmake=$1 source=$2 build=$3 compiler=$4 build_type=$5 flags=$6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
tail -n 1 "$work/log"
mv "$work/prefix" "$work/moved"  # an installation can be moved

configure() {
  "$cmake" -S "$source/tests/consumer" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
           -DCMAKE_BUILD_TYPE="$build_type" -DCMAKE_CXX_FLAGS="$flags" "$@" >"$work/log" || { cat "$work/log"; exit 1; }
}

echo "-- find_package(mantissa)"
configure -B "$work/installed" -DCMAKE_PREFIX_PATH="$work/moved"
"$cmake" --build "$work/installed"
"$work/installed/consumer"

if command -v pkg-config >/dev/null; then
  echo "-- pkg-config mantissa"
  PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name mantissa.pc)")
  export PKG_CONFIG_PATH
  # shellcheck disable=SC2046,SC2086
  "$compiler" $flags "$source/tests/consumer/main.cpp" -o "$work/hello" \
    $(pkg-config --cflags --libs mantissa)
  LD_LIBRARY_PATH=$(pkg-config --variable=libdir mantissa) "$work/hello"
fi

echo "-- add_subdirectory(mantissa)"
configure -B "$work/subdirectory" -DMANTISSA_SOURCE="$source"
"$cmake" --build "$work/subdirectory" --target CMakeFiles/consumer.dir/main.cpp.o
