#!/bin/sh
# Asks the cuDNN of this machine which engines it has for our graphs on an H200: cudnn_engines_test.sh SOURCE CXX
# No GPU is needed: since 9.8 cuDNN takes the description of one. 77, skipped, without cuDNN 9.8 or newer.
set -eu
source=$1 cxx=$2
root='' lib=''
for r in ${CUDNN_ROOT:-} /usr/local/cuda /usr; do
  [ -e "$r/include/cudnn_graph.h" ] || continue
  for l in "$r/lib" "$r/lib64" "$r/lib/x86_64-linux-gnu"; do
    [ -e "$l/libcudnn.so" ] && root=$r lib=$l && break 2
  done
done
[ -n "$lib" ] || { echo "no cuDNN was found (CUDNN_ROOT tells where it is): not tested"; exit 77; }
if ! grep -q CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR "$root/include/cudnn_graph.h"; then
  echo "cuDNN is older than 9.8: not tested"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Kernels of attention are compiled when they are asked for, which wants the driver's library; without a driver the
# toolkit's stub will do, as nothing is run.
if ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
  for stub in "$root"/lib/stubs/libcuda.so "$root"/lib64/stubs/libcuda.so; do
    [ -e "$stub" ] && cp -L "$stub" "$work/libcuda.so.1" && break
  done
fi
status=0
for part in CONVOLUTION ATTENTION; do
  # What runs plans is not called: it is dropped, and with it what it wants of the library.
  "$cxx" -std=c++20 -O0 -ffunction-sections -Wl,--gc-sections -D"$part" -DMANTISSA_HAS_CUDNN -I"$source" \
    -I"$root/include" "$source/tests/cudnn/engines.cpp" \
    -o "$work/$part" -L"$lib" -lcudnn -lcudart
  LD_LIBRARY_PATH=$lib:$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$work/$part" || status=1
done
exit $status
