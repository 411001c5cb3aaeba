// Sorting and searching along a dimension: argsort, searchsorted, and the indices of nonzero elements. Equal keys keep
// their order; NaN counts as the largest value. Mirrors core/cpu/sort.cpp.
#include "core/kernel.h"
#include "cuda/sorting.cuh"

namespace mantissa {
MANTISSA_KERNEL(argsort, const View& index, const View& x, int dim, bool descending)
MANTISSA_KERNEL(searchsorted, const View& index, const View& sorted, const View& values, bool right)
MANTISSA_KERNEL(nonzero, const View& index, const View& x)
}

namespace mantissa::cuda_backend {

void cumsum(const View& y, const View& x, int dim, bool reverse);  // cuda/cumulate.cu

namespace {

template <class C>
__global__ void keys_kernel(std::uint64_t* keys, const void* x, Dtype dtype, LinesOf lines, std::int64_t count,
                            bool descending) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count * lines.length) return;
  const std::uint64_t key =
      ordered_bits(load_element<C>(x, dtype, lines.start(i / lines.length) + i % lines.length * lines.step));
  keys[i] = descending ? ~key : key;
}
// Stores the first `out.length` of n positions of every line.
__global__ void store_positions_kernel(std::int64_t* index, const std::uint32_t* positions, LinesOf out,
                                       std::int64_t count, std::int64_t n) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count * out.length) return;
  const std::int64_t line = i / out.length, k = i % out.length;
  index[out.start(line) + k * out.step] = positions[line * n + k];
}

template <class C> struct Sequence {  // elements of a view in row-major order
  const void* data;
  Dtype dtype;
  Offsets walk;
  explicit Sequence(const View& v) : data(v.data), dtype(v.dtype) {
    const Dims* strides[] = {&v.strides};
    const Loop loop = collapse(v.sizes, strides, 1);
    walk = Offsets(loop.sizes, loop.strides[0]);
  }
  __device__ C operator[](std::int64_t i) const { return load_element<C>(data, dtype, walk(i)); }
};
template <class C>
__global__ void search_kernel(std::int64_t* index, Offsets out, Sequence<C> sorted, Sequence<C> values,
                              std::int64_t count, std::int64_t n, std::int64_t m, bool right) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::uint64_t wanted = ordered_bits(values[i]);
  const std::int64_t begin = i / m * n;
  std::int64_t low = 0, high = n;
  while (low < high) {
    const std::int64_t at = (low + high) / 2;
    const std::uint64_t key = ordered_bits(sorted[begin + at]);
    if (right ? key <= wanted : key < wanted) low = at + 1;
    else high = at;
  }
  index[out(i)] = low;
}

// --- nonzero: blocks count, a cumulative sum gives each its offset, blocks write in order ---
inline constexpr int scan_threads = 256;
template <class C> __global__ void count_nonzero_kernel(std::int64_t* counts, Sequence<C> x, std::int64_t n) {
  wait_for_previous_kernel();
  __shared__ int scratch[32];
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int total = fold_block<Sum>(i < n && x[i] != C(0) ? 1 : 0, scratch);
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}
struct Shape { int rank; std::int64_t sizes[Dims::max_rank]; };
template <class C>
__global__ void write_nonzero_kernel(std::int64_t* index, const std::int64_t* ends, Sequence<C> x, std::int64_t n,
                                     Shape shape) {
  wait_for_previous_kernel();
  __shared__ int before_warp[scan_threads / 32];
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const bool found = i < n && x[i] != C(0);
  const unsigned votes = __ballot_sync(all_lanes, found), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) before_warp[warp] = __popc(votes);
  __syncthreads();
  std::int64_t to = blockIdx.x > 0 ? ends[blockIdx.x - 1] : 0;
  for (unsigned k = 0; k < warp; ++k) to += before_warp[k];
  to += __popc(votes & ((1u << lane) - 1));
  if (!found) return;
  std::int64_t rest = i;
  for (int d = shape.rank - 1; d >= 0; --d) {
    index[to * shape.rank + d] = rest % shape.sizes[d];
    rest /= shape.sizes[d];
  }
}

}  // namespace

// The result may be shorter than x along dim: then it holds only the first indices.
void argsort(const View& index, const View& x, int dim, bool descending) {
  if (index.numel() == 0) return;
  const LinesOf in(x.sizes, x.strides, dim), out(index.sizes, index.strides, dim);
  const std::int64_t n = in.length, count = x.numel() / n;
  const Tensor keys = Tensor::allocate({count, n}, i64, x.device);
  visit_compute_any(x.dtype, [&]<class C>() {
    launch("argsort", &keys_kernel<C>, grid_for(count * n), static_cast<std::uint64_t*>(keys.raw_data()), x.data,
           x.dtype, in, count, descending);
  });
  const SortedLines s = sort_lines(keys, count, n);
  launch("argsort", &store_positions_kernel, grid_for(count * out.length), index.as<std::int64_t>(),
         static_cast<const std::uint32_t*>(s.positions.raw_data()), out, count, n);
}

// sorted [n], or [..., n] with values [..., m]: one sorted line per line of values.
void searchsorted(const View& index, const View& sorted, const View& values, bool right) {
  const std::int64_t count = index.numel();
  if (count == 0) return;
  const std::int64_t n = sorted.sizes.back(), m = sorted.dim() == 1 ? values.numel() : values.sizes.back();
  visit_compute_any(promote(sorted.dtype, values.dtype), [&]<class C>() {
    launch("searchsorted", &search_kernel<C>, grid_for(count), index.as<std::int64_t>(),
           Offsets(index.sizes, index.strides), Sequence<C>(sorted), Sequence<C>(values), count, n, m, right);
  });
}

// index [count, rank of x], in row-major order; `count` is the number of nonzero elements of x.
void nonzero(const View& index, const View& x) {
  const std::int64_t n = x.numel();
  if (n == 0 || index.numel() == 0) return;
  const Grid grid = grid_for(n, 1, scan_threads);
  const Tensor counts = Tensor::allocate({grid.blocks.x}, i64, x.device);
  auto* ends = static_cast<std::int64_t*>(counts.raw_data());
  Shape shape{x.dim(), {}};
  for (int d = 0; d < x.dim(); ++d) shape.sizes[d] = x.sizes[d];
  visit_compute_any(x.dtype, [&]<class C>() {
    launch("nonzero", &count_nonzero_kernel<C>, grid, ends, Sequence<C>(x), n);
    const Tensor sums = Tensor::allocate(counts.sizes(), i64, x.device);
    cumsum(sums.view(), counts.view(), 0, false);
    launch("nonzero", &write_nonzero_kernel<C>, grid, index.as<std::int64_t>(),
           static_cast<const std::int64_t*>(sums.raw_data()), Sequence<C>(x), n, shape);
  });
}

}  // namespace mantissa::cuda_backend
