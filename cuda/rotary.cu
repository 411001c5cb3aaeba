// Rotary embedding (Su et al., 2021): rotates pairs of elements of each row by angles that depend on its position. The
// cosine and sine tables are computed on the device in f64 and cached (ops/attention.cpp): no call copies them from the
// host. Mirrors core/cpu/rotary.cpp.
#include <cmath>

#include "core/kernel.h"
#include "cuda/reduction.cuh"
#include "cuda/rows.cuh"
#include "cuda/split.cuh"

namespace mantissa {
MANTISSA_KERNEL(rotary, const View& y, const View& x, const View& cosine, const View& sine, int position,
                bool interleaved, bool inverse)
// cosine, sine [positions, D / 2], contiguous, of the angles (start + t) * base^(-i / (D / 2)).
MANTISSA_CUDA_KERNEL(rotary_tables, const View& cosine, const View& sine, std::int64_t start, double base)
}

namespace mantissa::cuda_backend {
namespace {

template <class C>
__global__ void rotary_tables_kernel(C* cosine, C* sine, std::int64_t start, double base, int half, std::int64_t n) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double angle = static_cast<double>(start + i / half) * std::pow(base, -static_cast<double>(i % half) / half);
  cosine[i] = static_cast<C>(std::cos(angle));
  sine[i] = static_cast<C>(std::sin(angle));
}

// Rows are numbered over all dimensions but the last; gives their offsets in x and y, and their position.
struct RotaryRows {
  Offsets x, y, position;
  std::int64_t x_step, y_step;  // strides of the last dimension
  std::int64_t half, count;     // pairs per row; number of threads
  Split pairs;
};

template <class C> struct Turn {
  const C *cosine, *sine;
  C sign;
  __device__ void operator()(C c, C s, C& a, C& b) const {
    const C p = a, q = b;
    s *= sign;
    a = p * c - q * s;
    b = q * c + p * s;
  }
  __device__ void operator()(std::int64_t at, C& a, C& b) const { (*this)(cosine[at], sine[at], a, b); }
};

// One pair, any strides.
template <class C>
__global__ void rotary_kernel(RowOperand y, RowOperand x, RotaryRows rows, Turn<C> turn, bool interleaved) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= rows.count) return;
  const Split::Parts at = rows.pairs(i);
  const std::int64_t first = interleaved ? 2 * at.rest : at.rest, second = interleaved ? first + 1 : first + rows.half;
  const std::int64_t from = rows.x(at.quotient), to = rows.y(at.quotient);
  C a = load_element<C>(x.data, x.dtype, from + first * rows.x_step),
    b = load_element<C>(x.data, x.dtype, from + second * rows.x_step);
  turn(rows.position(at.quotient) * rows.half + at.rest, a, b);
  store_element(y.data, y.dtype, to + first * rows.y_step, a);
  store_element(y.data, y.dtype, to + second * rows.y_step, b);
}
// Eight pairs: two packs of a contiguous row.
__global__ void rotary_packs(RowOperand y, RowOperand x, RotaryRows rows, Turn<float> turn, bool interleaved) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= rows.count) return;
  const Split::Parts at = rows.pairs(i);
  const std::int64_t pair = at.rest * pack, first = interleaved ? 2 * pair : pair,
                     second = interleaved ? first + pack : first + rows.half;
  const std::int64_t from = rows.x(at.quotient), to = rows.y(at.quotient),
                     table = rows.position(at.quotient) * rows.half + pair;
  float a[pack], b[pack], c[pack], s[pack];
  load_pack(a, x.data, x.dtype, from + first);
  load_pack(b, x.data, x.dtype, from + second);
  load_pack(c, turn.cosine, f32, table);
  load_pack(s, turn.sine, f32, table);
#pragma unroll
  for (int k = 0; k < pack; ++k) {
    if (!interleaved) turn(c[k], s[k], a[k], b[k]);
    else if (k < pack / 2) turn(c[k], s[k], a[2 * k], a[2 * k + 1]);
    else turn(c[k], s[k], b[2 * k - pack], b[2 * k + 1 - pack]);
  }
  store_pack(y.data, y.dtype, to + first, a);
  store_pack(y.data, y.dtype, to + second, b);
}

bool is_aligned(const View& v) { return reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0; }
bool has_dense_rows(const View& v) {
  bool fits = v.strides[v.dim() - 1] == 1 && is_aligned(v);
  for (int d = 0; d + 1 < v.dim(); ++d) fits = fits && v.strides[d] % pack == 0;
  return fits;
}

}  // namespace

void rotary_tables(const View& cosine, const View& sine, std::int64_t start, double base) {
  const std::int64_t n = cosine.numel();
  visit_compute(cosine.dtype, [&]<class C>() {
    launch("rotary_tables", &rotary_tables_kernel<C>, grid_for(n), cosine.as<C>(), sine.as<C>(), start, base,
           cosine.sizes[1], n);
  });
}

void rotary(const View& y, const View& x, const View& cosine, const View& sine, int position, bool interleaved,
            bool inverse) {
  if (y.numel() == 0) return;
  const int last = x.dim() - 1;
  Dims sizes = x.sizes, from = x.strides, to = y.strides, counts = Dims::filled(x.dim(), 0);
  counts[position] = 1;
  for (Dims* d : {&sizes, &from, &to, &counts}) d->erase(last);
  RotaryRows rows;
  rows.x = Offsets(sizes, from);
  rows.y = Offsets(sizes, to);
  rows.position = Offsets(sizes, counts);
  rows.x_step = x.strides[last];
  rows.y_step = y.strides[last];
  rows.half = x.sizes[last] / 2;
  visit_compute(x.dtype, [&]<class C>() {
    const Turn<C> turn{cosine.as<const C>(), sine.as<const C>(), inverse ? C(-1) : C(1)};
    const bool packs = std::is_same_v<C, float> && rows.half % pack == 0 && has_dense_rows(x) && has_dense_rows(y) &&
                       is_aligned(cosine) && is_aligned(sine);
    rows.count = x.numel() / 2 / (packs ? pack : 1);
    rows.pairs = Split(rows.half / (packs ? pack : 1), rows.count);
    if constexpr (std::is_same_v<C, float>) {
      if (packs)
        return launch("rotary", &rotary_packs, grid_for(rows.count), operand(y), operand(x), rows, turn, interleaved);
    }
    launch("rotary", &rotary_kernel<C>, grid_for(rows.count), operand(y), operand(x), rows, turn, interleaved);
  });
}

}  // namespace mantissa::cuda_backend
