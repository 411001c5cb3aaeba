#include "core/gemm_few_rows.h"

#include "core/gemm_half.h"
#include "core/gemm_ways.h"
#include "core/parallel.h"
#include "core/pointwise.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y,
                std::span<const View* const> x)

namespace {

using namespace gemm_ways;

constexpr std::int64_t least_weight = 4096;  // elements: below, the cost of packing does not matter

View with_dense_rows(const View& v, Tensor& keep) {
  if (column_stride(v) == 1) return v;
  keep = Tensor::allocate(v.sizes, v.dtype);
  kernels::copy(cpu, keep.view(), v);
  return keep.view();
}
View with_dense_rows_in_f32(const View& v, Tensor& keep) {
  if (v.dtype == f32 && column_stride(v) == 1) return v;
  keep = Tensor::allocate(v.sizes, f32);
  kernels::copy(cpu, keep.view(), v);
  return keep.view();
}

// One matrix a of few rows by b, whose rows are along n if `across`, else along k.
void multiply_rows_by(const View& y, const View& a, const View& b, const View& bias, bool across) {
  Tensor a_copy, bias_copy;
  const std::int64_t n = columns_of(y), k = columns_of(a);
  View left = a, start = bias;
  if (a.dtype != f32 || column_stride(a) != 1) {
    a_copy = Tensor::allocate({rows_of(a), k}, f32);
    left.sizes = a_copy.sizes(), left.strides = {row_stride(a), column_stride(a)};
    kernels::copy(cpu, a_copy.view(), left);
    left = a_copy.view();
  }
  if (bias && !(bias.dtype == b.dtype && bias.is_contiguous())) {
    bias_copy = Tensor::allocate(bias.sizes, b.dtype);
    kernels::copy(cpu, bias_copy.view(), bias);
    start = bias_copy.view();
  }
  const FewRows p{b.dtype, rows_of(y), n, k, left.as<const float>(), row_stride(left), b.data,
                  across ? row_stride(b) : column_stride(b), start.data, y.data, n, y.dtype == f32};
  if (!across) return multiply_few_rows(p);
  constexpr std::int64_t line = 64, piece = 64 << 10;  // columns; elements of b that are worth a thread
  parallel_for(n, std::max<std::int64_t>(1, piece / k / line) * line,
               [&](std::int64_t begin, std::int64_t end) { kernels::gemm_few_rows_across(cpu, p, begin, end); });
}
// y = x + bias, or x rounded.
void add_bias(const View& y, const View& x, const View& bias) {
  float zero = 0;  // the sum's loop converts f16 and bf16 faster than a copy does
  const View nothing{&zero, {}, {}, f32, cpu};
  const pointwise::Add add;
  const View* operands[] = {&x, bias ? &bias : &nothing};
  const void* formula = &add;
  kernels::pointwise(cpu, pointwise::opcode<pointwise::Add>, formula, f32, y, std::span<const View* const>(operands));
}

}  // namespace

// --- few rows by a weight [n, k], given as its transpose ---

// (The same weight copied to [k, n] takes another algorithm, with different rounding.)
bool gemm_ways::is_few_rows(const Product& p) {
  const std::int64_t rows = p.m(), weight = p.n() * p.k();
  if (p.add || p.y.dtype == f64 || !(p.dtypes_agree() || p.is_wide())) return false;
  if (!p.is_one_matrix() || weight < least_weight) return false;
  // An element of the result is a horizontal sum over a vector's lanes, which takes as long as a hundred products, or
  // as packing a row of b for several rows.
  const bool halves = is_half(p.b.dtype);
  const std::int64_t deep = halves ? 64 * rows : rows == 1 ? 32 : 160;
  if (p.k() < deep) return false;
  // f16 and bf16 have their own transposed product (core/gemm_half.cpp), twice as fast for more rows than this. oneDNN
  // packs weights in f32, which takes long for large ones.
  const bool large = weight > (512 << 10);
  const std::int64_t most = halves ? half_panel / 4 : large ? most_few_rows : most_few_rows / 2;
  return rows <= most && row_stride(p.b) == 1;
}
void gemm_ways::multiply_by_rows(const Product& p) { multiply_rows_by(p.y, p.a, p.b, p.bias, false); }

void multiply_few_rows(const FewRows& p) {
  constexpr std::int64_t piece = 64 << 10, columns = 6;  // elements of b that are worth a thread; whole tiles
  std::int64_t pieces = 1;
  while (pieces < 2 * most_pieces && p.n * p.k >= 2 * piece * pieces) pieces *= 2;
  const std::int64_t step = (p.n + pieces - 1) / pieces, grain = (step + columns - 1) / columns * columns;
  parallel_for(p.n, grain, [&](std::int64_t begin, std::int64_t end) { kernels::gemm_few_rows(cpu, p, begin, end); });
}

// --- one row by f16 or bf16 stored along n: packing takes longer than the product ---

bool gemm_ways::is_row_across(const Product& p) {
  return !p.add && p.m() == 1 && p.y.numel() == p.n() && is_half(p.b.dtype) && (p.dtypes_agree() || p.is_wide()) &&
         !lies_on_its_side(p.b) && p.n() * p.k() >= least_weight;
}
void gemm_ways::multiply_across(const Product& p) {
  Tensor copy;
  multiply_rows_by(p.y, p.a, with_dense_rows(p.b, copy), p.bias, true);
}

// --- a matrix along k by one column or a few: the same as a transposed product ---

bool gemm_ways::is_one_column(const Product& p) {
  return !p.add && (!p.bias || is_half(p.y.dtype)) && p.n() == 1 && p.m() > most_few_rows && p.y.numel() == p.m() &&
         p.y.dtype != f64 && p.dtypes_agree() && !lies_on_its_side(p.a) && p.m() * p.k() >= least_weight;
}
void gemm_ways::multiply_by_column(const Product& p) {
  Tensor copy, wide;
  if (p.bias) wide = Tensor::allocate(p.y.sizes, f32);  // the sums are kept in f32 until the bias is added
  const View sums = p.bias ? wide.view() : p.y;
  multiply_rows_by(on_its_side(sums), on_its_side(p.b), on_its_side(with_dense_rows(p.a, copy)), {}, false);
  if (p.bias) add_bias(p.y, sums, p.bias);
}

// E.g. a layer that distinguishes two classes. The result is transposed back.
bool gemm_ways::is_few_columns(const Product& p) {
  constexpr std::int64_t most = 6;
  const std::int64_t least_depth = is_half(p.a.dtype) ? 64 : 32;  // sums over a vector's lanes
  return !p.add && p.n() <= most && p.k() >= least_depth && p.m() > most_few_rows && p.is_one_matrix() &&
         p.y.dtype != f64 && p.dtypes_agree() && !lies_on_its_side(p.a) && p.m() * p.k() >= least_weight;
}
void gemm_ways::multiply_few_columns(const Product& p) {
  Tensor copy;
  const Tensor turned = Tensor::allocate({p.n(), p.m()}, f32);
  multiply_rows_by(turned.view(), on_its_side(p.b), on_its_side(with_dense_rows(p.a, copy)), {}, false);
  View sums = p.y;
  sums.data = turned.raw_data(), sums.dtype = f32;
  sums.strides[sums.dim() - 2] = 1, sums.strides[sums.dim() - 1] = p.m();
  add_bias(p.y, sums, p.bias);
}

// --- batches of one row or one column ---

// By matrices stored along k.
bool gemm_ways::is_batch_of_columns(const Product& p) {
  return p.plain() && p.n() == 1 && p.y.numel() > p.m() && p.y.dtype != f64 && p.dtypes_agree() &&
         column_stride(p.a) == 1 && p.k() > 0;
}
void gemm_ways::multiply_columns(const Product& p) {
  const std::int64_t n = p.m(), k = p.k(), items = p.y.numel() / n;
  Tensor copy;
  const View lines = with_dense_rows_in_f32(on_its_side(p.b), copy);  // [..., 1, k]
  const auto grain = static_cast<std::int64_t>(small_piece / flops_of(n, 1, k));
  const auto size = static_cast<std::int64_t>(size_of(p.a.dtype));
  parallel_for(items, std::clamp<std::int64_t>(grain, 1, items), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const FewRows row{p.a.dtype, 1, n, k, lines.as<const float>() + item_offset(lines, i), k,
                        p.a.as<const char>() + size * item_offset(p.a, i), row_stride(p.a), nullptr,
                        p.y.as<char>() + size * i * n, n};
      kernels::gemm_few_rows(cpu, row, 0, n);
    }
  });
}

// By matrices stored along n, as in attention of a single query over the values.
bool gemm_ways::is_batch_of_rows(const Product& p) {
  return p.plain() && p.m() == 1 && p.y.numel() > p.n() && p.y.dtype != f64 && p.dtypes_agree() &&
         column_stride(p.b) == 1 && p.n() >= 8 && p.k() >= 16;
}
void gemm_ways::multiply_rows(const Product& p) {
  const std::int64_t n = p.n(), k = p.k(), items = p.y.numel() / n;
  Tensor copy;
  const View lines = with_dense_rows_in_f32(p.a, copy);
  const auto grain = static_cast<std::int64_t>(small_piece / 4 / flops_of(1, n, k));
  const auto size = static_cast<std::int64_t>(size_of(p.b.dtype));
  parallel_for(items, std::clamp<std::int64_t>(grain, 1, items), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const FewRows row{p.b.dtype, 1, n, k, lines.as<const float>() + item_offset(lines, i), k,
                        p.b.as<const char>() + size * item_offset(p.b, i), row_stride(p.b), nullptr,
                        p.y.as<char>() + size * i * n, n};
      kernels::gemm_few_rows_across(cpu, row, 0, n);
    }
  });
}

}  // namespace mantissa
