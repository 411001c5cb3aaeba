#include "core/gemm_half.h"

#include "core/amx.h"
#include "core/gemm_ways.h"
#include "core/parallel.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace {

using namespace gemm_ways;

HalfProduct half_product(const View& y, const View& a, const View& b, const View& bias, std::int64_t item, bool add) {
  const auto at = [item](const View& v) { return v.as<const char>() + 2 * item_offset(v, item); };
  const std::int64_t n = columns_of(y), size = static_cast<std::int64_t>(size_of(y.dtype));
  return {a.dtype, rows_of(y), n, columns_of(a), at(a), row_stride(a), column_stride(a), at(b), row_stride(b),
          column_stride(b), bias.data, y.as<char>() + size * item * rows_of(y) * n, n, false, nullptr, y.dtype == f32,
          add};
}
// The same product as c^T = b^T @ a^T: then a is packed, and b is read in place.
HalfProduct turned(const HalfProduct& p) {
  return {p.dtype, p.n, p.m, p.k, p.b, p.b_col, p.b_row, p.a, p.a_col, p.a_row, p.bias, p.c, p.c_row, true, nullptr,
          p.wide, p.add};
}
std::int64_t panels_of(const HalfProduct& p) { return (p.n + half_panel - 1) / half_panel; }
std::int64_t packed_units(const HalfProduct& p) {
  std::int64_t units = 0;
  kernels::gemm_half_units(cpu, p, &units);
  return units * panels_of(p);
}

Tensor pack(HalfProduct p) {
  Tensor packed = Tensor::allocate({packed_units(p)}, i32);
  p.packed = static_cast<std::uint32_t*>(packed.raw_data());
  const std::int64_t panel = half_panel * std::max<std::int64_t>(1, p.k);
  parallel_for(panels_of(p), (grain_size + panel - 1) / panel, [&](std::int64_t begin, std::int64_t end) {
    kernels::gemm_half_pack(cpu, p, begin, end);
  });
  return packed;
}

// Packing a weight for few rows does not pay off.
bool has_few_rows(const HalfProduct& p) {
  return p.b_row == 1 && p.m > half_panel / 2 && p.m <= half_panel && p.n > p.m && p.k >= 768;
}
// With AMX packing a weight often takes longer than multiplying it: it is read in place if whole tiles can be.
bool is_better_turned(const HalfProduct& p) {
  return p.b_row == 1 && p.k % 32 == 0 && p.k >= 256 && p.m > half_panel / 2 && p.m <= 1024 && 4 * p.m <= p.n;
}

// One matrix: all of b is packed once and shared by pieces of rows (and columns, if there are few rows). `kept` belongs
// to `weight`, b's view. Elements have the same bits if the product is transposed.
void multiply_half_matrix(HalfProduct p, double flops, const View& weight, const KeptWeight& kept) {
  const bool fast = p.dtype == bf16 && uses_amx();
  PackedWeight packed(kept, weight, "panels of halves");
  if (!packed && !packed.wanted() && (fast ? is_better_turned(p) : has_few_rows(p))) {
    p = turned(p);
    packed = PackedWeight({}, weight, "");
  }
  if (!packed) packed.fill(pack(p));
  p.packed = static_cast<std::uint32_t*>(packed.data());
  Grid g;
  // Pieces share the panels, so small ones cost nothing; but AMX may multiply faster than operands can be read.
  const auto pieces = static_cast<std::int64_t>(flops / small_piece);
  const std::int64_t most = fast ? 4 * num_threads() : 4 * most_pieces;
  for (std::int64_t left = std::min(pieces, most); left > 1; left /= 2) {
    if (p.m >= 112 * g.down && !(fast && p.m < 512 * g.down && p.n >= 256 * g.across)) g.down *= 2;
    else if (p.n >= 2 * half_panel * g.across) g.across *= 2;
  }
  const std::int64_t rows = (p.m + g.down - 1) / g.down;
  const std::int64_t columns = (panels_of(p) + g.across - 1) / g.across * half_panel;
  parallel_for(g.down * g.across, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      // a thread's pieces are of those columns whose panels it has packed
      const std::int64_t row = i % g.down * rows, column = i / g.down * columns;
      if (row >= p.m || column >= p.n) continue;
      kernels::gemm_half(cpu, p, row, std::min(rows, p.m - row), column, std::min(columns, p.n - column));
    }
  });
}

}  // namespace

bool gemm_ways::is_of_halves(const Product& p) { return p.is_wide() || (is_half(p.y.dtype) && p.dtypes_agree()); }
void gemm_ways::multiply_halves(const Product& p) {
  const View &y = p.y, &a = p.a, &b = p.b;
  Tensor bias_copy;
  View start = p.bias;
  if (start && !(start.dtype == a.dtype && start.is_contiguous())) {
    bias_copy = Tensor::allocate(p.bias.sizes, a.dtype);
    kernels::copy(cpu, bias_copy.view(), p.bias);
    start = bias_copy.view();
  }
  const std::int64_t m = rows_of(y), n = columns_of(y), items = y.numel() / (m * n);
  const double flops = flops_of(m, n, columns_of(a));
  if (items == 1 || flops >= good_piece) {
    for (std::int64_t i = 0; i < items; ++i)
      multiply_half_matrix(half_product(y, a, b, start, i, p.add), flops, b, items == 1 ? p.kept : KeptWeight());
    return;
  }
  const auto grain = static_cast<std::int64_t>(small_piece / flops);
  parallel_for(items, std::clamp<std::int64_t>(grain, 1, items), [&](std::int64_t begin, std::int64_t end) {
    HalfProduct one = half_product(y, a, b, start, begin, p.add);
    const Tensor packed = Tensor::allocate({packed_units(one)}, i32);
    for (std::int64_t i = begin; i < end; ++i) {
      one = half_product(y, a, b, start, i, p.add);
      one.packed = static_cast<std::uint32_t*>(packed.raw_data());
      kernels::gemm_half_pack(cpu, one, 0, panels_of(one));
      kernels::gemm_half(cpu, one, 0, m, 0, n);
    }
  });
}

}  // namespace mantissa
