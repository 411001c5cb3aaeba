#include "core/gemm_small.h"

#include "core/gemm_ways.h"
#include "core/parallel.h"
#include "core/pointwise.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y,
                std::span<const View* const> x)

namespace {

using namespace gemm_ways;

template <class T> void multiply_scalars(const Product& p) {
  const std::int64_t m = p.m(), n = p.n(), k = p.k(), items = p.y.numel() / (m * n);
  const std::int64_t a_row = row_stride(p.a), a_column = column_stride(p.a);
  const std::int64_t b_row = row_stride(p.b), b_column = column_stride(p.b);
  const T* bias = p.bias.as<const T>();
  const std::int64_t bias_stride = bias ? p.bias.strides[0] : 0;
  const bool add = p.add;
  for (std::int64_t item = 0; item < items; ++item) {
    T* out = p.y.as<T>() + item * m * n;
    const T* left = p.a.as<const T>() + item_offset(p.a, item);
    const T* right = p.b.as<const T>() + item_offset(p.b, item);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        Compute<T> sum = bias ? static_cast<Compute<T>>(bias[j * bias_stride]) : 0;
        for (std::int64_t e = 0; e < k; ++e) {
          sum += static_cast<Compute<T>>(left[i * a_row + e * a_column]) *
                 static_cast<Compute<T>>(right[e * b_row + j * b_column]);
        }
        out[i * n + j] = static_cast<T>(add ? static_cast<Compute<T>>(out[i * n + j]) + sum : sum);
      }
    }
  }
}

}  // namespace

bool gemm_ways::is_minute(const Product& p) {
  constexpr std::int64_t most = 128;  // multiplications below which a library call costs more than the work
  return p.y.numel() * p.k() <= most && p.dtypes_agree();
}
void gemm_ways::multiply_by_loops(const Product& p) {
  visit_floating(p.y.dtype, [&]<class T> { multiply_scalars<T>(p); });
}

// --- tiny matrices: rotations of points ---

bool gemm_ways::is_tiny(const Product& p) {
  return !p.add && p.n() <= most_tiny && p.k() <= most_tiny && p.k() > 0 && p.dtypes_agree();
}
// For one f32 matrix with very many rows the library, vectorised across rows, is faster.
bool gemm_ways::is_tiny_and_short(const Product& p) {
  return is_tiny(p) && !(p.y.dtype == f32 && p.m() >= 1024 && p.is_one_matrix());
}
void gemm_ways::multiply_tiny(const Product& p) {
  View start = p.bias;
  Tensor copy;
  if (p.bias && p.bias.dtype != p.y.dtype) {
    copy = Tensor::allocate(p.bias.sizes, p.y.dtype);
    kernels::copy(cpu, copy.view(), p.bias);
    start = copy.view();
  }
  constexpr std::int64_t rows = 2048;  // about ten microseconds
  parallel_for(p.y.numel() / p.n(), rows, [&](std::int64_t begin, std::int64_t end) {
    kernels::gemm_tiny(cpu, p.y, p.a, p.b, start, begin, end);
  });
}

// --- outer products ---

// For short rows, and for f16 and bf16 with many rows and columns, other algorithms are faster.
bool gemm_ways::is_outer(const Product& p) {
  constexpr std::int64_t long_row = 16;
  return p.plain() && p.k() == 1 && ((p.a.dtype == f32 && p.n() >= long_row) || p.m() == 1 || p.n() == 1);
}
void gemm_ways::multiply_outer(const Product& p) {
  const pointwise::Mul mul;
  const View* operands[] = {&p.a, &p.b};
  const void* formula = &mul;
  kernels::pointwise(cpu, pointwise::opcode<pointwise::Mul>, formula, compute_dtype(p.y.dtype), p.y,
                     std::span<const View* const>(operands));
}

// --- batches of small matrices ---

// Worthwhile if a library call would cost more than packing b by plain copies.
bool gemm_ways::is_small(const Product& p) {
  constexpr std::int64_t work = 40 << 10;
  const std::int64_t m = p.m(), n = p.n(), k = p.k();
  return p.plain() && p.y.dtype == f32 && p.dtypes_agree() && !p.is_one_matrix() && k > 0 &&
         std::max({m, n, k}) <= most_small && m * n * k <= work;
}
void gemm_ways::multiply_small(const Product& p) {
  const SmallProduct s{p.m(), p.n(), p.k(), row_stride(p.a), column_stride(p.a), row_stride(p.b), column_stride(p.b)};
  const std::int64_t size = s.m * s.n, items = p.y.numel() / size;
  constexpr double overhead = 1e3;  // fixed cost of a product, in operations
  const auto grain = static_cast<std::int64_t>(small_piece / (flops_of(s.m, s.n, s.k) + overhead) / 4);
  parallel_for(items, std::clamp<std::int64_t>(grain, 1, items), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      kernels::gemm_small(cpu, s, p.a.as<const float>() + item_offset(p.a, i),
                          p.b.as<const float>() + item_offset(p.b, i), p.y.as<float>() + i * size);
    }
  });
}

}  // namespace mantissa
