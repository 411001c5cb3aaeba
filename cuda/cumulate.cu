// Cumulative sums, products and linear recurrences along one dimension, in order, in f64 (integers in i64). One warp
// per line: it scans 32 elements at a time and carries over the last result. Mirrors core/cpu/cumulate.cpp.
#include "core/kernel.h"
#include "cuda/reduction.cuh"

namespace mantissa {
MANTISSA_KERNEL(cumsum, const View& y, const View& x, int dim, bool reverse)
MANTISSA_KERNEL(cumprod, const View& y, const View& x, int dim, bool reverse)
MANTISSA_KERNEL(linear_recurrence, const View& y, const View& a, const View& b, int dim, bool reverse)
}

namespace mantissa::cuda_backend {
namespace {

// v -> factor * v + term: covers all three operations and is closed under composition.
template <class W> struct Affine {
  W factor, term;
  __device__ Affine after(const Affine& first) const { return {factor * first.factor, factor * first.term + term}; }
};

enum class Scan { sum, product, recurrence };
// The lines of a tensor: their start offsets, and the stride along the dimension.
struct Lines {
  const void* data = nullptr;
  Dtype dtype = f32;
  Offsets start;
  std::int64_t step = 0;
};

template <class W>
__global__ void scan_kernel(Scan scan, void* y, Dtype y_dtype, Lines out, Lines a, Lines b, std::int64_t lines,
                            std::int64_t length, bool reverse) {
  const std::int64_t line = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (line >= lines) return;  // applies to the whole warp
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t to = out.start(line), from_a = a.start(line), from_b = b.start(line);
  W carried = scan == Scan::product ? W(1) : W(0);
  for (std::int64_t first = 0; first < length; first += 32) {
    const std::int64_t k = first + lane, i = reverse ? length - 1 - k : k;
    Affine<W> v{W(1), W(0)};
    if (k < length) {
      const W x = load_element<W>(a.data, a.dtype, from_a + i * a.step);
      if (scan == Scan::sum) v.term = x;
      else v.factor = x;
      if (scan == Scan::recurrence) v.term = load_element<W>(b.data, b.dtype, from_b + i * b.step);
    }
    const Affine<W> own = v;
    for (int distance = 1; distance < 32; distance *= 2) {
      const Affine<W> before{__shfl_up_sync(all_lanes, v.factor, distance),
                             __shfl_up_sync(all_lanes, v.term, distance)};
      if (lane >= distance) v = v.after(before);
    }
    // A product leaves out the term: with an infinite factor it is infinity times 0, NaN.
    W result = scan == Scan::sum       ? carried + v.term
               : scan == Scan::product ? carried * v.factor
                                       : v.factor * carried + v.term;
    if constexpr (std::is_floating_point_v<W>) {
      // A product of 32 factors may leave the range of numbers although that with the carried one does not: then one
      // element after the other.
      const bool leaves = scan != Scan::sum && (!(v.factor - v.factor == W(0)) ||
                                                (scan == Scan::product && std::abs(v.factor) < W(1e-290)));
      if (__ballot_sync(all_lanes, leaves) != 0) {
        W running = carried;
        for (int l = 0; l < 32; ++l) {
          const W factor = __shfl_sync(all_lanes, own.factor, l), term = __shfl_sync(all_lanes, own.term, l);
          running = scan == Scan::product ? running * factor : factor * running + term;
          if (l == lane) result = running;
        }
      }
    }
    if (k < length) store_element(y, y_dtype, to + i * out.step, result);
    carried = __shfl_sync(all_lanes, result, 31);
  }
}

Lines lines_of(const View& v, int dim) {
  Lines l{v.data, v.dtype, {}, v.dim() > 0 ? v.strides[dim] : 1};
  Dims sizes = v.sizes, strides = v.strides;
  if (v.dim() > 0) sizes.erase(dim), strides.erase(dim);
  l.start = Offsets(sizes, strides);
  return l;
}
void run(const char* name, Scan scan, const View& y, const View& a, const View& b, int dim, bool reverse) {
  if (y.numel() == 0) return;
  const std::int64_t length = y.dim() > 0 ? y.sizes[dim] : 1, lines = y.numel() / length;
  constexpr unsigned warps = 8;
  const Grid grid{dim3(static_cast<unsigned>((lines + warps - 1) / warps)), dim3(32, warps)};
  const auto with = [&]<class W>() {
    launch(name, &scan_kernel<W>, grid, scan, y.data, y.dtype, lines_of(y, dim), lines_of(a, dim), lines_of(b, dim),
           lines, length, reverse);
  };
  if (is_floating(y.dtype)) with.template operator()<double>();
  else with.template operator()<std::int64_t>();
}

}  // namespace

void cumsum(const View& y, const View& x, int dim, bool reverse) { run("cumsum", Scan::sum, y, x, x, dim, reverse); }
void cumprod(const View& y, const View& x, int dim, bool reverse) {
  run("cumprod", Scan::product, y, x, x, dim, reverse);
}
// y[i] = b[i] + a[i] * y[i - 1]
void linear_recurrence(const View& y, const View& a, const View& b, int dim, bool reverse) {
  run("linear_recurrence", Scan::recurrence, y, a, b, dim, reverse);
}

}  // namespace mantissa::cuda_backend
