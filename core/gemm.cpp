#include "core/gemm.h"

#include <algorithm>
#include <cstring>

#include "core/gemm_few_rows.h"
#include "core/gemm_half.h"
#include "core/gemm_small.h"
#include "core/kernel.h"
#include "core/onednn.h"
#include "core/parallel.h"
#include "core/pointwise.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y,
                std::span<const View* const> x)
MANTISSA_KERNEL(gemm_f64, std::int64_t m, std::int64_t n, std::int64_t k, const double* a, std::int64_t a_row,
                std::int64_t a_col, const double* b, std::int64_t b_row, std::int64_t b_col, double* c,
                std::int64_t c_row)

MANTISSA_CUDA_KERNEL(gemm, const View& y, const View& a, const View& b, const View& bias, bool add)

namespace {

constexpr double small_piece = 4e6;   // some twenty microseconds of one core: worth waking a thread
constexpr double good_piece = 8e6;    // below this, packing the same panels in every piece costs too much
constexpr std::int64_t most_pieces = 32;
constexpr std::int64_t tiny = 128;  // multiplications below which a library call costs more than the work

// The part of a product that one thread computes: rows and columns of one matrix of the batch.
struct Piece { std::int64_t item, row, rows, column, columns; };

std::int64_t rows_of(const View& v) { return v.size(v.dim() - 2); }
std::int64_t columns_of(const View& v) { return v.size(v.dim() - 1); }
std::int64_t row_stride(const View& v) { return v.strides[v.dim() - 2]; }
std::int64_t column_stride(const View& v) { return v.strides[v.dim() - 1]; }

bool dtypes_agree(const View& y, const View& a, const View& b) { return a.dtype == y.dtype && b.dtype == y.dtype; }

// Whether rows lie apart by at least their length, which is what leading dimensions can express.
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

// `v` in the dtype to multiply in and with strides that the product can read; `keep` owns a copy
// where one is needed, which lies the way v does: what is a step from row to row stays the shorter one, or the bits
// would not be those of v without its gaps. Repeated matrices are copied once.
View prepare(const View& v, Dtype compute, Tensor& keep) {
  Layout layout;
  if (v.dtype == compute && (compute == f64 || find_layout(v, &layout))) return v;
  View once = v;
  for (int d = 0; d < v.dim() - 2; ++d) {
    if (v.strides[d] == 0) once.sizes[d] = 1;
  }
  const bool on_its_side = row_stride(v) > 0 && row_stride(v) < column_stride(v);
  const auto turn = [rank = v.dim()](View& m) {
    std::swap(m.sizes[rank - 2], m.sizes[rank - 1]);
    std::swap(m.strides[rank - 2], m.strides[rank - 1]);
  };
  if (on_its_side) turn(once);
  keep = Tensor::allocate(once.sizes, compute, v.device);
  kernels::copy(v.device, keep.view(), once);
  View ready = keep.view();
  if (on_its_side) turn(ready);
  ready.sizes = v.sizes;
  for (int d = 0; d < v.dim() - 2; ++d) {
    if (v.strides[d] == 0) ready.strides[d] = 0;
  }
  return ready;
}

template <class T> void multiply_tiny(const View& y, const View& a, const View& b, const View& bias, bool add) {
  const std::int64_t m = rows_of(y), n = columns_of(y), k = columns_of(a), items = y.numel() / (m * n);
  for (std::int64_t item = 0; item < items; ++item) {
    T* out = y.as<T>() + item * m * n;
    const T* left = a.as<const T>() + item_offset(a, item);
    const T* right = b.as<const T>() + item_offset(b, item);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        Compute<T> sum = bias ? static_cast<Compute<T>>(bias.as<const T>()[j * bias.strides[0]]) : 0;
        for (std::int64_t p = 0; p < k; ++p) {
          sum += static_cast<Compute<T>>(left[i * row_stride(a) + p * column_stride(a)]) *
                 static_cast<Compute<T>>(right[p * row_stride(b) + j * column_stride(b)]);
        }
        out[i * n + j] = static_cast<T>(add ? static_cast<Compute<T>>(out[i * n + j]) + sum : sum);
      }
    }
  }
}

// Every row of the piece of y starts as the bias, or as zeros.
template <class T> void start_rows(T* c, std::int64_t c_row, const T* bias, const Piece& p) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    if (bias) std::memcpy(c + r * c_row, bias + p.column, static_cast<std::size_t>(p.columns) * sizeof(T));
    else std::memset(c + r * c_row, 0, static_cast<std::size_t>(p.columns) * sizeof(T));
  }
}

// Whether long rows of a weight [n, k] fall on the same places of the first-level cache, where the library's product of
// few columns, which reads a few elements of all of them at a time, loses them again: with AVX-512 it takes twice as
// long. Such rows are copied to where they lie otherwise, a part of k at a time. Asks for the shape: a view and its
// copy must go the same way.
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

double flops_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(std::max<std::int64_t>(k, 1));
}

// Into how many rows and columns of pieces a product is cut. Every piece packs its part of a and b
// again, and a is the dearer one; of the two cuts, the cheaper is taken. Strides have no say in it. (A
// transposed f32 view may still differ from its copy in the last bits: oneDNN blocks the two differently.)
struct Grid { std::int64_t down = 1, across = 1; };
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

// Calls run(piece) for all pieces of y, in parallel. Small matrices of a batch are taken together.
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

// Into how many parts a long sum is cut. Where there are few results, as in gradients of weights, pieces of rows and
// columns would all read much of a and b and add up little.
std::int64_t parts_of_sum(const View& y, const View& a) {
  constexpr std::int64_t few = 64 << 10, long_sum = 256, most_parts = 16;
  const std::int64_t m = rows_of(y), n = columns_of(y), k = columns_of(a);
  if (y.numel() != m * n || m * n > few || k < 16 * std::max(m, n)) return 1;
  const auto worth = static_cast<std::int64_t>(flops_of(m, n, k) / good_piece);
  return std::max<std::int64_t>(1, std::min({worth, k / long_sum, most_parts}));
}
// y = (add ? y : bias or 0) + a @ b for contiguous f32 y, the parts of every sum added up in order.
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

template <class T> void multiply(const View& y, const View& a, const View& b, const View& bias, bool add) {
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
      return multiply_parts(y, left, right, start, add, parts);
  }
  for_pieces(y, columns_of(a), [&](const Piece& p) { multiply_piece<T>(y, left, right, start, p, add); });
}

// A column by a row. For short rows, and halves where there are many of both, the ways below are faster.
bool is_outer(const View& y, const View& a) {
  constexpr std::int64_t long_row = 16;
  return columns_of(a) == 1 && ((a.dtype == f32 && columns_of(y) >= long_row) || rows_of(y) == 1 || columns_of(y) == 1);
}
void multiply_outer(const View& y, const View& a, const View& b) {
  const pointwise::Mul mul;
  const View* operands[] = {&a, &b};
  const void* formula = &mul;
  kernels::pointwise(y.device, pointwise::opcode<pointwise::Mul>, formula, compute_dtype(y.dtype), y,
                     std::span<const View* const>(operands));
}

// --- tiny matrices: rotations of points ---

bool is_tiny(const View& y, const View& a, const View& b) {
  return columns_of(y) <= most_tiny && columns_of(a) <= most_tiny && columns_of(a) > 0 && dtypes_agree(y, a, b);
}
// One f32 matrix of very many rows: the library's vectors across rows are faster.
bool is_long_and_tiny(const View& y) {
  return y.dtype == f32 && rows_of(y) >= 1024 && y.numel() == rows_of(y) * columns_of(y);
}
void multiply_tiny(const View& y, const View& a, const View& b, const View& bias) {
  View start = bias;
  Tensor copy;
  if (bias && bias.dtype != y.dtype) {
    copy = Tensor::allocate(bias.sizes, y.dtype);
    kernels::copy(cpu, copy.view(), bias);
    start = copy.view();
  }
  constexpr std::int64_t rows = 2048;  // some ten microseconds
  parallel_for(y.numel() / columns_of(y), rows, [&](std::int64_t begin, std::int64_t end) {
    kernels::gemm_tiny(cpu, y, a, b, start, begin, end);
  });
}

// --- batches of small matrices ---

// Worth it where a call of the library would cost more than packing b by plain copies.
bool is_small(const View& y, const View& a, const View& b) {
  constexpr std::int64_t work = 40 << 10;
  const std::int64_t m = rows_of(y), n = columns_of(y), k = columns_of(a);
  return y.dtype == f32 && a.dtype == f32 && b.dtype == f32 && y.numel() > m * n && k > 0 &&
         std::max({m, n, k}) <= most_small && m * n * k <= work;
}
void multiply_small(const View& y, const View& a, const View& b) {
  const SmallProduct p{rows_of(y),    columns_of(y), columns_of(a), row_stride(a),
                       column_stride(a), row_stride(b), column_stride(b)};
  const std::int64_t size = p.m * p.n, items = y.numel() / size;
  constexpr double overhead = 1e3;  // what a product costs beside its operations
  const auto grain = static_cast<std::int64_t>(small_piece / (flops_of(p.m, p.n, p.k) + overhead) / 4);
  parallel_for(items, std::clamp<std::int64_t>(grain, 1, items), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      kernels::gemm_small(cpu, p, a.as<const float>() + item_offset(a, i), b.as<const float>() + item_offset(b, i),
                          y.as<float>() + i * size);
    }
  });
}

// Halves whose sums are kept in f32.
bool is_wide(const View& y, const View& a, const View& b) {
  return y.dtype == f32 && is_half(a.dtype) && a.dtype == b.dtype;
}

// --- few rows ---

// A weight [n, k] seen from its side, large enough that packing it matters. (The same weight copied to [k, n] goes
// another way, with other last bits.)
constexpr std::int64_t least_few_rows_weight = 4096;
bool is_few_rows(const View& y, const View& a, const View& b) {
  if (y.dtype == f64 || !(dtypes_agree(y, a, b) || is_wide(y, a, b))) return false;
  if (y.numel() != rows_of(y) * columns_of(y)) return false;
  if (columns_of(y) * columns_of(a) < least_few_rows_weight) return false;
  // A result is the sum of a vector's lanes, which takes as long as a hundred products, or as packing a row of b for
  // several rows.
  const std::int64_t rows = rows_of(y), deep = is_half(b.dtype) ? 64 * rows : rows == 1 ? 32 : 160;
  if (columns_of(a) < deep) return false;
  // Halves have a product of their own that turns round (multiply_half_matrix), twice as fast with more rows than this.
  // oneDNN packs a weight in f32, which takes long when that is large.
  const bool large = columns_of(y) * columns_of(a) > (512 << 10);
  const std::int64_t most = is_half(b.dtype) ? half_panel / 4 : large ? most_few_rows : most_few_rows / 2;
  return rows <= most && row_stride(b) == 1;
}
bool lies_on_its_side(const View& v) { return row_stride(v) > 0 && row_stride(v) < column_stride(v); }
// A matrix along k by one column: the same product turned round.
bool is_one_column(const View& y, const View& a, const View& b) {
  return columns_of(y) == 1 && rows_of(y) > most_few_rows && y.numel() == rows_of(y) && y.dtype != f64 &&
         dtypes_agree(y, a, b) && !lies_on_its_side(a) && rows_of(a) * columns_of(a) >= least_few_rows_weight;
}
View on_its_side(View v) {
  const int last = v.dim() - 1;
  std::swap(v.sizes[last - 1], v.sizes[last]);
  std::swap(v.strides[last - 1], v.strides[last]);
  return v;
}
View with_dense_rows(const View& v, Tensor& keep) {
  if (column_stride(v) == 1) return v;
  keep = Tensor::allocate(v.sizes, v.dtype);
  kernels::copy(cpu, keep.view(), v);
  return keep.view();
}
// One row by halves that lie along n: packing them takes longer than the product.
bool is_row_across(const View& y, const View& a, const View& b) {
  return rows_of(y) == 1 && y.numel() == columns_of(y) && is_half(b.dtype) &&
         (dtypes_agree(y, a, b) || is_wide(y, a, b)) && !lies_on_its_side(b) &&
         columns_of(y) * columns_of(a) >= least_few_rows_weight;
}
void multiply_by_rows(const View& y, const View& a, const View& b, const View& bias, bool across = false);
void multiply_across(const View& y, const View& a, const View& b, const View& bias) {
  Tensor copy;
  multiply_by_rows(y, a, with_dense_rows(b, copy), bias, true);
}
void multiply_by_column(const View& y, const View& a, const View& b) {
  Tensor copy;
  multiply_by_rows(on_its_side(y), on_its_side(b), on_its_side(with_dense_rows(a, copy)), View{});
}
void multiply_by_rows(const View& y, const View& a, const View& b, const View& bias, bool across) {
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
  if (!across) return mantissa::multiply_few_rows(p);
  constexpr std::int64_t line = 64, piece = 64 << 10;  // columns; elements of b that are worth a thread
  parallel_for(n, std::max<std::int64_t>(1, piece / k / line) * line,
               [&](std::int64_t begin, std::int64_t end) { kernels::gemm_few_rows_across(cpu, p, begin, end); });
}

// A column and its bias: the sums are kept in f32 until it is added.
void multiply_by_column(const View& y, const View& a, const View& b, const View& bias) {
  const Tensor sums = Tensor::allocate(y.sizes, f32);
  View wide = sums.view();
  multiply_by_column(wide, a, b);
  const pointwise::Add add;
  const View* operands[] = {&wide, &bias};
  const void* formula = &add;
  kernels::pointwise(y.device, pointwise::opcode<pointwise::Add>, formula, f32, y,
                     std::span<const View* const>(operands));
}

// Few columns, as of a layer that tells two classes apart: the same product turned round, and its result turned back.
bool is_few_columns(const View& y, const View& a, const View& b) {
  constexpr std::int64_t most = 6;
  const std::int64_t least_depth = is_half(a.dtype) ? 64 : 32;  // a sum is a vector whose lanes are added up
  return columns_of(y) <= most && columns_of(a) >= least_depth && rows_of(y) > most_few_rows &&
         y.numel() == rows_of(y) * columns_of(y) && y.dtype != f64 && dtypes_agree(y, a, b) && !lies_on_its_side(a) &&
         rows_of(a) * columns_of(a) >= least_few_rows_weight;
}
void multiply_few_columns(const View& y, const View& a, const View& b, const View& bias) {
  Tensor copy;
  const Tensor turned = Tensor::allocate({columns_of(y), rows_of(y)}, f32);
  multiply_by_rows(turned.view(), on_its_side(b), on_its_side(with_dense_rows(a, copy)), View{});
  View sums = y;
  sums.data = turned.raw_data(), sums.dtype = f32;
  sums.strides[y.dim() - 2] = 1, sums.strides[y.dim() - 1] = rows_of(y);
  float zero = 0;  // no bias: the sum's loop turns halves faster than a copy does
  const View nothing{&zero, {}, {}, f32, cpu};
  const pointwise::Add add;
  const View* operands[] = {&sums, bias ? &bias : &nothing};
  const void* formula = &add;
  kernels::pointwise(y.device, pointwise::opcode<pointwise::Add>, formula, f32, y,
                     std::span<const View* const>(operands));
}

// --- batches of one row or one column, by a matrix that lies along k ---

bool is_batch_of_columns(const View& y, const View& a, const View& b) {
  return columns_of(y) == 1 && y.numel() > rows_of(y) && y.dtype != f64 && dtypes_agree(y, a, b) &&
         column_stride(a) == 1 && columns_of(a) > 0;
}
void multiply_columns(const View& y, const View& a, const View& b) {
  const std::int64_t n = rows_of(a), k = columns_of(a), items = y.numel() / n;
  Tensor copy;
  View lines = on_its_side(b);  // [..., 1, k]
  if (b.dtype != f32 || column_stride(lines) != 1) {
    copy = Tensor::allocate(lines.sizes, f32);
    kernels::copy(cpu, copy.view(), lines);
    lines = copy.view();
  }
  const auto grain = static_cast<std::int64_t>(small_piece / flops_of(n, 1, k));
  const auto size = static_cast<std::int64_t>(size_of(a.dtype));
  parallel_for(items, std::clamp<std::int64_t>(grain, 1, items), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const FewRows p{a.dtype, 1, n, k, lines.as<const float>() + item_offset(lines, i), k,
                      a.as<const char>() + size * item_offset(a, i), row_stride(a), nullptr,
                      y.as<char>() + size * i * n, n};
      kernels::gemm_few_rows(cpu, p, 0, n);
    }
  });
}

// The same by matrices that lie along n, as what one query's attention makes of the values.
bool is_batch_of_rows(const View& y, const View& a, const View& b) {
  return rows_of(y) == 1 && y.numel() > columns_of(y) && y.dtype != f64 && dtypes_agree(y, a, b) &&
         column_stride(b) == 1 && columns_of(y) >= 8 && columns_of(a) >= 16;
}
void multiply_rows(const View& y, const View& a, const View& b) {
  const std::int64_t n = columns_of(y), k = columns_of(a), items = y.numel() / n;
  Tensor copy;
  View lines = a;
  if (a.dtype != f32 || column_stride(a) != 1) {
    copy = Tensor::allocate(a.sizes, f32);
    kernels::copy(cpu, copy.view(), a);
    lines = copy.view();
  }
  const auto grain = static_cast<std::int64_t>(small_piece / 4 / flops_of(1, n, k));
  const auto size = static_cast<std::int64_t>(size_of(b.dtype));
  parallel_for(items, std::clamp<std::int64_t>(grain, 1, items), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const FewRows p{b.dtype, 1, n, k, lines.as<const float>() + item_offset(lines, i), k,
                      b.as<const char>() + size * item_offset(b, i), row_stride(b), nullptr,
                      y.as<char>() + size * i * n, n};
      kernels::gemm_few_rows_across(cpu, p, 0, n);
    }
  });
}

// --- f16 and bf16 ---

HalfProduct half_product(const View& y, const View& a, const View& b, const View& bias, std::int64_t item, bool add) {
  const auto at = [item](const View& v) { return v.as<const char>() + 2 * item_offset(v, item); };
  const std::int64_t n = columns_of(y), size = static_cast<std::int64_t>(size_of(y.dtype));
  return {a.dtype, rows_of(y), n, columns_of(a), at(a), row_stride(a), column_stride(a), at(b), row_stride(b),
          column_stride(b), bias.data, y.as<char>() + size * item * rows_of(y) * n, n, false, nullptr, y.dtype == f32,
          add};
}
// The same product as c^T = b^T @ a^T: what is packed is then a, and b is read as it lies.
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

// One matrix: all of b is packed once, then pieces of rows (and columns, where there are few rows) use it. `kept` is
// that of `weight`, b's view. Elements have the same bits when the product is turned round.
void multiply_half_matrix(HalfProduct p, double flops, const View& weight, const KeptWeight& kept) {
  const bool few_rows = p.m > half_panel / 2 && p.m <= half_panel && p.n > p.m && p.k >= 768;
  PackedWeight packed(kept, weight, "panels of halves");
  if (!packed && !packed.wanted() && few_rows && p.b_row == 1) {  // they do not pay for packing weights
    p = turned(p);
    packed = PackedWeight({}, weight, "");
  }
  if (!packed) packed.fill(pack(p));
  p.packed = static_cast<std::uint32_t*>(packed.data());
  Grid g;
  const auto pieces = static_cast<std::int64_t>(flops / small_piece);  // they share the panels: small ones cost nothing
  for (std::int64_t left = std::min(pieces, 4 * most_pieces); left > 1; left /= 2) {
    if (p.m >= 112 * g.down) g.down *= 2;
    else if (p.n >= 2 * half_panel * g.across) g.across *= 2;
  }
  const std::int64_t rows = (p.m + g.down - 1) / g.down;
  const std::int64_t columns = (panels_of(p) + g.across - 1) / g.across * half_panel;
  parallel_for(g.down * g.across, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / g.across * rows, column = i % g.across * columns;
      if (row >= p.m || column >= p.n) continue;
      kernels::gemm_half(cpu, p, row, std::min(rows, p.m - row), column, std::min(columns, p.n - column));
    }
  });
}

void multiply_half(const View& y, const View& a, const View& b, const View& bias, const KeptWeight& kept, bool add) {
  Tensor bias_copy;
  View start = bias;
  if (bias && !(bias.dtype == a.dtype && bias.is_contiguous())) {
    bias_copy = Tensor::allocate(bias.sizes, a.dtype);
    kernels::copy(cpu, bias_copy.view(), bias);
    start = bias_copy.view();
  }
  const std::int64_t m = rows_of(y), n = columns_of(y), items = y.numel() / (m * n);
  const double flops = flops_of(m, n, columns_of(a));
  if (items == 1 || flops >= good_piece) {
    for (std::int64_t i = 0; i < items; ++i)
      multiply_half_matrix(half_product(y, a, b, start, i, add), flops, b, items == 1 ? kept : KeptWeight());
    return;
  }
  const auto grain = static_cast<std::int64_t>(small_piece / flops);
  parallel_for(items, std::clamp<std::int64_t>(grain, 1, items), [&](std::int64_t begin, std::int64_t end) {
    HalfProduct p = half_product(y, a, b, start, begin, add);
    const Tensor packed = Tensor::allocate({packed_units(p)}, i32);
    for (std::int64_t i = begin; i < end; ++i) {
      p = half_product(y, a, b, start, i, add);
      p.packed = static_cast<std::uint32_t*>(packed.raw_data());
      kernels::gemm_half_pack(cpu, p, 0, panels_of(p));
      kernels::gemm_half(cpu, p, 0, m, 0, n);
    }
  });
}

}  // namespace

void multiply_few_rows(const FewRows& p) {
  constexpr std::int64_t piece = 64 << 10, columns = 6;  // elements of b that are worth a thread; whole tiles
  std::int64_t pieces = 1;
  while (pieces < 2 * most_pieces && p.n * p.k >= 2 * piece * pieces) pieces *= 2;
  const std::int64_t step = (p.n + pieces - 1) / pieces, grain = (step + columns - 1) / columns * columns;
  parallel_for(p.n, grain, [&](std::int64_t begin, std::int64_t end) { kernels::gemm_few_rows(cpu, p, begin, end); });
}

std::int64_t item_offset(const View& v, std::int64_t item) {
  std::int64_t offset = 0;
  for (int d = v.dim() - 3; d >= 0; --d) {
    offset += item % v.size(d) * v.strides[d];
    item /= v.size(d);
  }
  return offset;
}

std::int64_t pieces_for(double flops) {
  std::int64_t pieces = flops >= 2 * small_piece ? 2 : 1;
  while (pieces > 1 && pieces < most_pieces && flops >= good_piece * 2 * static_cast<double>(pieces)) pieces *= 2;
  return pieces;
}

void kernels::gemm(Device device, const View& y, const View& a, const View& b, const View& bias, const KeptWeight& kept,
                   bool add) {
  if (y.numel() == 0) return;
  if (!device.is_cpu()) return cuda_backend::prepare(&cuda_backend::gemm, device)(y, a, b, bias, add);
  if (y.numel() * columns_of(a) <= tiny && dtypes_agree(y, a, b)) {
    visit_floating(y.dtype, [&]<class T> { multiply_tiny<T>(y, a, b, bias, add); });
  } else if (!add && is_tiny(y, a, b) && !is_long_and_tiny(y)) {
    multiply_tiny(y, a, b, bias);
  } else if (!add && !bias && is_tiny(on_its_side(y), on_its_side(b), on_its_side(a))) {
    multiply_tiny(on_its_side(y), on_its_side(b), on_its_side(a), View{});
  } else if (!add && !bias && is_outer(y, a)) {
    multiply_outer(y, a, b);
  } else if (!add && !bias && is_batch_of_rows(y, a, b)) {
    multiply_rows(y, a, b);
  } else if (!add && !bias && is_batch_of_rows(on_its_side(y), on_its_side(b), on_its_side(a))) {
    multiply_rows(on_its_side(y), on_its_side(b), on_its_side(a));
  } else if (!add && !bias && is_small(y, a, b)) {
    multiply_small(y, a, b);
  } else if (!add && is_few_rows(y, a, b)) {
    multiply_by_rows(y, a, b, bias);
  } else if (!add && is_row_across(y, a, b)) {
    multiply_across(y, a, b, bias);
  } else if (!add && !bias && is_one_column(y, a, b)) {
    multiply_by_column(y, a, b);
  } else if (!add && bias && is_half(y.dtype) && is_one_column(y, a, b)) {
    multiply_by_column(y, a, b, bias);
  } else if (!add && is_few_columns(y, a, b)) {
    multiply_few_columns(y, a, b, bias);
  } else if (!add && !bias && is_batch_of_columns(y, a, b)) {
    multiply_columns(y, a, b);
  } else if (!add && !bias && is_batch_of_columns(on_its_side(y), on_its_side(b), on_its_side(a))) {
    multiply_columns(on_its_side(y), on_its_side(b), on_its_side(a));
  } else if (!add && !bias && is_row_across(on_its_side(y), on_its_side(b), on_its_side(a))) {
    multiply_across(on_its_side(y), on_its_side(b), on_its_side(a), View{});
  } else if (y.dtype == f64) {
    multiply<double>(y, a, b, bias, add);
  } else if (is_wide(y, a, b) || (is_half(y.dtype) && dtypes_agree(y, a, b))) {
    multiply_half(y, a, b, bias, kept, add);
  } else {
    multiply<float>(y, a, b, bias, add);
  }
}

}  // namespace mantissa
