// The order of the rows of a matrix, for unique along a dimension: runs of sorted rows, at first of one row each, are
// merged pairwise. Each row finds its place by binary search in the other run. NaN counts as the largest value.
#include "core/kernel.h"
#include "cuda/launch.cuh"
#include "cuda/vec.cuh"

namespace mantissa {
MANTISSA_CUDA_KERNEL(argsort_rows, const View& order, const View& rows)
}

namespace mantissa::cuda_backend {
namespace {

template <class C>
__device__ bool row_before(const void* rows, Dtype dtype, std::int64_t a, std::int64_t b, std::int64_t width) {
  for (std::int64_t k = 0; k < width; ++k) {
    const C u = load_element<C>(rows, dtype, a * width + k), v = load_element<C>(rows, dtype, b * width + k);
    if (u < v || (u == u && v != v)) return true;
    if (v < u || (v == v && u != u)) return false;
  }
  return false;
}

template <class C>
__global__ void merge_rows_kernel(std::int64_t* merged, const std::int64_t* order, const void* rows, Dtype dtype,
                                  std::int64_t n, std::int64_t width, std::int64_t run) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t first = i / (2 * run) * 2 * run, middle = first + run < n ? first + run : n,
                     end = first + 2 * run < n ? first + 2 * run : n, mine = order[i];
  const bool in_left = i < middle;
  std::int64_t low = in_left ? middle : first, high = in_left ? end : middle;  // the other run
  const std::int64_t other = low;
  while (low < high) {  // of equal rows those of the left run come first
    const std::int64_t at = (low + high) / 2;
    const bool before = in_left ? row_before<C>(rows, dtype, order[at], mine, width)
                                : !row_before<C>(rows, dtype, mine, order[at], width);
    if (before) low = at + 1;
    else high = at;
  }
  merged[first + (i - (in_left ? first : middle)) + (low - other)] = mine;
}

}  // namespace

// order [n] i64 holds 0 ... n - 1; rows [n, width], contiguous.
void argsort_rows(const View& order, const View& rows) {
  const std::int64_t n = rows.size(0), width = rows.size(1);
  const Tensor spare = Tensor::allocate({n}, i64, rows.device);
  auto *from = order.as<std::int64_t>(), *to = static_cast<std::int64_t*>(spare.raw_data());
  visit_compute_any(rows.dtype, [&]<class C>() {
    for (std::int64_t run = 1; run < n; run *= 2) {
      launch("argsort_rows", &merge_rows_kernel<C>, grid_for(n), to, from, rows.data, rows.dtype, n, width, run);
      std::swap(from, to);
    }
  });
  if (from != order.data)
    copy_bytes(order.data, rows.device, from, rows.device, static_cast<std::size_t>(n) * sizeof(std::int64_t));
}

}  // namespace mantissa::cuda_backend
