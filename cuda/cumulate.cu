// Cumulative sums, products and linear recurrences along one dimension, in order, in f64 (integers in i64). One warp
// per line: it scans 32 elements at a time and carries over the last result. A few long lines are summed in chunks of a
// warp each, which start from the sums of the chunks before them. Mirrors core/cpu/cumulate.cpp.
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

// The part of a line that a warp works on: elements [begin, end) in the order of the scan.
struct Chunks {
  std::int64_t lines, length, chunk, per_line;
  bool reverse;
  __device__ std::int64_t mine() const { return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }
  __device__ bool none() const { return mine() >= lines * per_line; }  // the same for a whole warp
  __device__ std::int64_t line() const { return mine() / per_line; }
  __device__ std::int64_t begin() const { return mine() % per_line * chunk; }
  __device__ std::int64_t end() const { return begin() + chunk < length ? begin() + chunk : length; }
  __device__ std::int64_t position(std::int64_t k) const { return reverse ? length - 1 - k : k; }
};

template <class W> __global__ void chunk_sums_kernel(W* sums, Lines a, Chunks chunks) {
  wait_for_previous_kernel();
  if (chunks.none()) return;
  const std::int64_t from = a.start(chunks.line()), end = chunks.end();
  W sum = 0;
  for (std::int64_t k = chunks.begin() + threadIdx.x; k < end; k += 32)
    sum += load_element<W>(a.data, a.dtype, from + chunks.position(k) * a.step);
  sum = fold_warp<Sum>(sum);
  if (threadIdx.x == 0) sums[chunks.mine()] = sum;
}

// before: for sums in chunks, the sum of each line up to the end of each chunk.
template <class W>
__global__ void scan_kernel(Scan scan, void* y, Dtype y_dtype, Lines out, Lines a, Lines b, Chunks chunks,
                            const W* before) {
  wait_for_previous_kernel();
  if (chunks.none()) return;
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t line = chunks.line(), end = chunks.end();
  const std::int64_t to = out.start(line), from_a = a.start(line), from_b = b.start(line);
  W carried = scan == Scan::product ? W(1) : chunks.begin() > 0 ? before[chunks.mine() - 1] : W(0);
  for (std::int64_t first = chunks.begin(); first < end; first += 32) {
    const std::int64_t k = first + lane, i = chunks.position(k);
    Affine<W> v{W(1), W(0)};
    if (k < end) {
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
    if (k < end) store_element(y, y_dtype, to + i * out.step, result);
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
Grid grid_of(const Chunks& c) {
  constexpr std::int64_t warps = 8;
  return {dim3(static_cast<unsigned>((c.lines * c.per_line + warps - 1) / warps)), dim3(32, warps)};
}

void run(const char* name, Scan scan, const View& y, const View& a, const View& b, int dim, bool reverse) {
  if (y.numel() == 0) return;
  constexpr std::int64_t chunk = 1024, enough_lines = 1024;  // to keep a GPU busy; depends on the shape alone
  const std::int64_t length = y.dim() > 0 ? y.sizes[dim] : 1, lines = y.numel() / length;
  Chunks chunks{lines, length, length, 1, reverse};
  if (scan == Scan::sum && lines < enough_lines && length >= 4 * chunk) {
    chunks.chunk = chunk;
    chunks.per_line = (length + chunk - 1) / chunk;
  }
  const auto with = [&]<class W>() {
    Tensor before;
    if (chunks.per_line > 1) {
      before = Tensor::allocate({lines, chunks.per_line}, dtype_of<W>, y.device);
      const View sums = before.view();
      launch("cumsum_chunks", &chunk_sums_kernel<W>, grid_of(chunks), sums.as<W>(), lines_of(a, dim), chunks);
      run(name, Scan::sum, sums, sums, sums, 1, false);
    }
    launch(name, &scan_kernel<W>, grid_of(chunks), scan, y.data, y.dtype, lines_of(y, dim), lines_of(a, dim),
           lines_of(b, dim), chunks, before.defined() ? before.view().as<const W>() : nullptr);
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
