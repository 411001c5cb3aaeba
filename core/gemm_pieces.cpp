// Products in f32 and f64, cut into pieces: of rows and columns, or of a long sum.
#include <algorithm>
#include <cstring>

#include "core/gemm_ways.h"
#include "core/kernel.h"
#include "core/onednn.h"
#include "core/parallel.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(gemm_f64, std::int64_t m, std::int64_t n, std::int64_t k, const double* a, std::int64_t a_row,
                std::int64_t a_col, const double* b, std::int64_t b_row, std::int64_t b_col, double* c,
                std::int64_t c_row)

namespace {

using namespace gemm_ways;

// The part of a product that one thread computes: rows and columns of one matrix of the batch.
struct Piece { std::int64_t item, row, rows, column, columns; };

// Whether the row stride is at least the row length, which is what leading dimensions can express.
bool has_rows(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, std::int64_t column_stride) {
  return (column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1);
}
struct Layout { bool transposed; std::int64_t leading; };
bool find_layout(const View& v, Layout* layout) {
  const std::int64_t r = rows_of(v), c = columns_of(v);
  if (has_rows(r, c, row_stride(v), column_stride(v))) {
    *layout = {false, r == 1 ? std::max<std::int64_t>(c, 1) : row_stride(v)};
  } else if (has_rows(c, r, column_stride(v), row_stride(v))) {
    *layout = {true, c == 1 ? std::max<std::int64_t>(r, 1) : column_stride(v)};
  } else {
    return false;
  }
  return true;
}

// `v` in the dtype to multiply in and with strides that the product supports; `keep` owns a copy if one is needed, with
// the same order of strides as v: otherwise the bits would differ from those of v without its gaps. Broadcast matrices
// are copied once.
View prepare(const View& v, Dtype compute, Tensor& keep) {
  Layout layout;
  if (v.dtype == compute && (compute == f64 || find_layout(v, &layout))) return v;
  View once = v;
  for (int d = 0; d < v.dim() - 2; ++d) {
    if (v.strides[d] == 0) once.sizes[d] = 1;
  }
  const bool turned = lies_on_its_side(v);
  if (turned) once = on_its_side(once);
  keep = Tensor::allocate(once.sizes, compute, v.device);
  kernels::copy(v.device, keep.view(), once);
  View ready = turned ? on_its_side(keep.view()) : keep.view();
  ready.sizes = v.sizes;
  for (int d = 0; d < v.dim() - 2; ++d) {
    if (v.strides[d] == 0) ready.strides[d] = 0;
  }
  return ready;
}

// Initialises every row of the piece of y to the bias, or to zeros.
template <class T> void start_rows(T* c, std::int64_t c_row, const T* bias, const Piece& p) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    if (bias) std::memcpy(c + r * c_row, bias + p.column, static_cast<std::size_t>(p.columns) * sizeof(T));
    else std::memset(c + r * c_row, 0, static_cast<std::size_t>(p.columns) * sizeof(T));
  }
}

// Whether the long rows of a weight [n, k] map to the same L1 cache sets: the library's product of few columns reads a
// few elements of all rows at a time and would evict them again; with AVX-512 it takes twice as long. Such rows are
// copied to a different row stride, a part of k at a time. Depends on the shape only: a view and its copy must take the
// same path.
bool rows_share_cache_lines(std::int64_t columns, std::int64_t k) {
  return columns < 128 && k >= 1024 && k % 512 == 0 && cpu_backend::isa() == cpu_backend::Isa::avx512;
}

template <class T>
void multiply_piece(const View& y, const View& a, const View& b, const T* bias, const Piece& p, bool add) {
  const std::int64_t n = columns_of(y), k = columns_of(a);
  T* c = y.as<T>() + p.item * rows_of(y) * n + p.row * n + p.column;
  const T* left = a.as<const T>() + item_offset(a, p.item) + p.row * row_stride(a);
  const T* right = b.as<const T>() + item_offset(b, p.item) + p.column * column_stride(b);
  if constexpr (std::is_same_v<T, double>) {
    if (!add) start_rows(c, n, bias, p);
    kernels::gemm_f64(y.device, p.rows, p.columns, k, left, row_stride(a), column_stride(a), right, row_stride(b),
                      column_stride(b), c, n);
  } else {
    if (!add && (bias || k == 0)) start_rows(c, n, bias, p);
    if (k == 0) return;
    Layout la{}, lb{};
    find_layout(a, &la);
    find_layout(b, &lb);
    if (!la.transposed && lb.transposed && rows_share_cache_lines(p.columns, k)) {
      constexpr std::int64_t depth = 256, pitch = depth + 16;
      const Tensor memory = Tensor::allocate({p.columns * pitch}, f32);
      for (std::int64_t from = 0; from < k; from += depth) {
        for (std::int64_t j = 0; j < p.columns; ++j)
          std::memcpy(memory.data<float>() + j * pitch, right + j * lb.leading + from, depth * sizeof(float));
        onednn::sgemm(false, true, p.rows, p.columns, depth, left + from, la.leading, memory.data<float>(), pitch,
                      bias || add || from > 0 ? 1.0f : 0.0f, c, n);
      }
      return;
    }
    onednn::sgemm(la.transposed, lb.transposed, p.rows, p.columns, k, left, la.leading, right, lb.leading,
                  bias || add ? 1.0f : 0.0f, c, n);
  }
}

// The grid of row and column pieces that a product is cut into. Every piece packs its part of a and b again, and a is
// the more expensive one; of the two cuts the cheaper is taken. Independent of strides. (A transposed f32 view may
// still differ from its copy in the last bits: oneDNN blocks the two differently.)
Grid find_grid(std::int64_t m, std::int64_t n, double flops) {
  Grid g;
  for (std::int64_t left = pieces_for(flops); left > 1; left /= 2) {
    const std::int64_t more_b = g.down * n, more_a = 2 * g.across * m;
    const bool rows_fit = m >= 64 * g.down, columns_fit = n >= 64 * g.across;
    if (rows_fit && (more_b <= more_a || !columns_fit)) g.down *= 2;
    else if (columns_fit) g.across *= 2;
  }
  return g;
}

// Calls run(piece) for all pieces of y, in parallel. Small matrices of a batch are grouped.
template <class F> void for_pieces(const View& y, std::int64_t k, F&& run) {
  const std::int64_t m = rows_of(y), n = columns_of(y), items = y.numel() / (m * n);
  const double flops = flops_of(m, n, k);
  const Grid grid = find_grid(m, n, flops);
  const std::int64_t rows = (m + grid.down - 1) / grid.down, columns = (n + grid.across - 1) / grid.across;
  const std::int64_t cuts = grid.down * grid.across;
  const auto grain = static_cast<std::int64_t>(small_piece * static_cast<double>(cuts) / flops);
  parallel_for(items * cuts, std::clamp<std::int64_t>(grain, 1, items * cuts),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t row = i % cuts / grid.across * rows, column = i % grid.across * columns;
                   const Piece p{i / cuts, row, std::min(rows, m - row), column, std::min(columns, n - column)};
                   if (p.rows > 0 && p.columns > 0) run(p);
                 }
               });
}

// Number of parts that a long sum is cut into (split-k). For small results, as in weight gradients, pieces of rows and
// columns would all read much of a and b for few sums.
std::int64_t parts_of_sum(const View& y, const View& a) {
  constexpr std::int64_t few = 64 << 10, long_sum = 256, most_parts = 16;
  const std::int64_t m = rows_of(y), n = columns_of(y), k = columns_of(a);
  if (y.numel() != m * n || m * n > few || k < 16 * std::max(m, n)) return 1;
  const auto worth = static_cast<std::int64_t>(flops_of(m, n, k) / good_piece);
  return std::max<std::int64_t>(1, std::min({worth, k / long_sum, most_parts}));
}
// y = (add ? y : bias or 0) + a @ b for contiguous f32 y; the parts of every sum are added in order.
void multiply_parts(const View& y, const View& a, const View& b, const float* bias, bool add, std::int64_t parts) {
  const std::int64_t m = rows_of(y), n = columns_of(y), k = columns_of(a), step = (k + parts - 1) / parts;
  const Tensor sums = Tensor::allocate({parts, m, n}, f32);
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t from = std::min(p * step, k), depth = std::min(step, k - from);
      View part = y, left = a, right = b;
      part.data = sums.data<float>() + p * m * n;
      left.data = const_cast<float*>(a.as<const float>()) + from * column_stride(a);
      right.data = const_cast<float*>(b.as<const float>()) + from * row_stride(b);
      left.sizes[left.dim() - 1] = right.sizes[right.dim() - 2] = depth;
      multiply_piece<float>(part, left, right, nullptr, {0, 0, m, 0, n}, false);
    }
  });
  const std::int64_t rows = std::max<std::int64_t>(1, grain_size / (n * parts));
  parallel_for(m, rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* to = y.as<float>() + r * n;
      if (!add) start_rows(to, n, bias, {0, r, 1, 0, n});
      for (std::int64_t p = 0; p < parts; ++p) {
        const float* from = sums.data<float>() + (p * m + r) * n;
        for (std::int64_t j = 0; j < n; ++j) to[j] += from[j];
      }
    }
  });
}

template <class T> void multiply(const Product& product) {
  const View &y = product.y, &a = product.a, &b = product.b, &bias = product.bias;
  Tensor a_copy, b_copy, bias_copy;
  const View left = prepare(a, dtype_of<T>, a_copy), right = prepare(b, dtype_of<T>, b_copy);
  const T* start = bias.as<const T>();
  if (bias && !(bias.dtype == dtype_of<T> && bias.is_contiguous())) {
    bias_copy = Tensor::allocate(bias.sizes, dtype_of<T>, bias.device);
    kernels::copy(bias.device, bias_copy.view(), bias);
    start = bias_copy.data<T>();
  }
  if constexpr (std::is_same_v<T, float>) {
    if (const std::int64_t parts = parts_of_sum(y, a); parts > 1)
      return multiply_parts(y, left, right, start, product.add, parts);
  }
  for_pieces(y, columns_of(a), [&](const Piece& p) { multiply_piece<T>(y, left, right, start, p, product.add); });
}

}  // namespace

void gemm_ways::multiply_in_pieces(const Product& p) {
  if (p.y.dtype == f64) multiply<double>(p);
  else multiply<float>(p);
}

}  // namespace mantissa
