#!/bin/sh
# Lists the CPU kernels that have no CUDA version: cuda_kernels_test.sh NM CPU_OBJECTS... -- CUDA_OBJECTS...
# Fails when there is one. gemm_dot, gemm_f64, gemm_half*, gemm_few_rows, gemm_small, gemm_tiny, winograd* and
# depthwise* are parts of gemm and conv2d, which CUDA has as a whole; argsort_place is made of argsort there,
# count_between of searchsorted and sums by index, spread of fill and copy. dense_eig is computed on the host there;
# solve_lower is a step of decompositions. What ends in _channels is the channels-last part of a
# kernel, moved* turn views, find_rows walks for reductions, philox_bits draws for dropout and attention, can_* ask.
set -eu
nm=$1
shift
names() {  # namespace prefix, object files
  prefix=$1
  shift
  "$nm" -C --defined-only "$@" | sed -n "s/^[0-9a-f]* [TW] $prefix::\([a-z0-9_]*\)(.*/\1/p" | sort -u
}
cpu=''
while [ "$1" != -- ]; do
  cpu="$cpu $1"
  shift
done
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2086
cpu_only='dense_eig|solve_lower|gemm_(dot|f64)|gemm_(half|few_rows|small|tiny).*|winograd.*|depthwise.*|argsort_place|spread|count_between|moved|moved_to_last|find_rows|philox_bits|can_[a-z_]*|[a-z0-9_]*_channels(_backward)?'
names mantissa::cpu_backend::baseline $cpu | grep -vxE "$cpu_only" >"$work/cpu"
printf 'conv2d\ngemm\n' | sort -u - "$work/cpu" >"$work/wanted"
names mantissa::cuda_backend "$@" >"$work/cuda"
missing=$(comm -23 "$work/wanted" "$work/cuda")
count=$(printf '%s' "$missing" | grep -c . || true)
echo "$(grep -c . "$work/wanted") kernels, without a CUDA version: $count"
[ -z "$missing" ] || echo "$missing"
[ "$count" -eq 0 ]
