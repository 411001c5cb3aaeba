// Cumulative logsumexp and cumulative extremes along one dimension. One warp per line: it scans 32 elements at a time
// and carries over the last result. Mirrors the kernels of the same names in core/cpu.
#include "core/kernel.h"
#include "cuda/rows.cuh"

namespace mantissa {
MANTISSA_KERNEL(logcumsumexp, const View& y, const View& x, int dim)
MANTISSA_KERNEL(cumulative_extreme, const View& values, const View& indices, const View& x, int dim, bool largest)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

// A scan gives the states of single elements, and joins those of neighbouring stretches; `none` is that of no elements.
struct LogSums {  // in f64
  using State = double;
  RowOperand y, x;
  __device__ State none() const { return -__builtin_huge_val(); }
  __device__ State load(std::int64_t at, std::int64_t) const { return load_element<double>(x.data, x.dtype, at); }
  __device__ void store(std::int64_t at, State v) const { store_element(y.data, y.dtype, at, v); }
  __device__ State join(State a, State b) const {
    const double high = a > b ? a : b, low = a > b ? b : a;
    if (!(a == a) || !(b == b)) return a + b;
    if (high - high != 0) return high;  // infinite
    return high + std::log1p(std::exp(low - high));
  }
  __device__ State above(State v, int distance) const { return __shfl_up_sync(all_lanes, v, distance); }
  __device__ State last(State v) const { return __shfl_sync(all_lanes, v, 31); }
};

// A later value replaces the extreme if it is equal, more extreme or NaN; NaN stays.
template <class C> struct Extremes {
  struct State {
    C best;
    std::int64_t at;
  };
  RowOperand values, indices, x;
  bool largest;
  __device__ State none() const { return {C(0), -1}; }
  __device__ State load(std::int64_t at, std::int64_t k) const { return {load_element<C>(x.data, x.dtype, at), k}; }
  __device__ void store(std::int64_t at, const State& v) const {
    store_element(values.data, values.dtype, at, v.best);
    store_element(indices.data, indices.dtype, at, v.at);
  }
  __device__ State join(const State& a, const State& b) const {
    if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
    const bool replaces = a.best == a.best && (largest ? b.best >= a.best : b.best <= a.best);
    return replaces || !(b.best == b.best) ? b : a;
  }
  __device__ State above(const State& v, int distance) const {
    return {__shfl_up_sync(all_lanes, v.best, distance), __shfl_up_sync(all_lanes, v.at, distance)};
  }
  __device__ State last(const State& v) const {
    return {__shfl_sync(all_lanes, v.best, 31), __shfl_sync(all_lanes, v.at, 31)};
  }
};

// Blocks of (32, warps).
template <class Scan> __global__ void scan_lines_kernel(Scan scan, std::int64_t lines, std::int64_t n) {
  wait_for_previous_kernel();
  const std::int64_t line = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (line >= lines) return;  // applies to the whole warp
  const int lane = static_cast<int>(threadIdx.x);
  auto carried = scan.none();
  for (std::int64_t first = 0; first < n; first += 32) {
    const std::int64_t k = first + lane;
    auto v = k < n ? scan.load(line * n + k, k) : scan.none();
    for (int distance = 1; distance < 32; distance *= 2) {
      const auto before = scan.above(v, distance);
      if (lane >= distance) v = scan.join(before, v);
    }
    v = scan.join(carried, v);
    if (k < n) scan.store(line * n + k, v);
    carried = scan.last(v);
  }
}
template <class Scan> void scan_lines(const char* name, const Scan& scan, std::int64_t lines, std::int64_t n) {
  constexpr std::int64_t warps = 8;
  const Grid grid{dim3(static_cast<unsigned>((lines + warps - 1) / warps)), dim3(32, warps)};
  launch(name, &scan_lines_kernel<Scan>, grid, scan, lines, n);
}

std::int64_t length_along(const View& v, int dim) { return v.dim() > 0 ? v.sizes[dim] : 1; }

}  // namespace

void logcumsumexp(const View& y, const View& x, int dim) {
  if (y.numel() == 0) return;
  const DenseInput from(moved_to_last(x, dim));
  const DenseOutput to(moved_to_last(y, dim));
  const std::int64_t n = length_along(x, dim), lines = y.numel() / n;
  scan_lines("logcumsumexp", LogSums{operand(to.view), operand(from.view)}, lines, n);
  to.finish();
}
void cumulative_extreme(const View& values, const View& indices, const View& x, int dim, bool largest) {
  if (x.numel() == 0) return;
  const DenseInput from(moved_to_last(x, dim));
  const DenseOutput value(moved_to_last(values, dim)), index(moved_to_last(indices, dim));
  const std::int64_t n = length_along(x, dim), lines = x.numel() / n;
  visit_compute_any(x.dtype, [&]<class C>() {
    const Extremes<C> scan{operand(value.view), operand(index.view), operand(from.view), largest};
    scan_lines("cumulative_extreme", scan, lines, n);
  });
  value.finish();
  index.finish();
}

}  // namespace mantissa::cuda_backend
