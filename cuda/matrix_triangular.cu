// Cholesky and LU factorizations, row exchanges and triangular systems, for whole batches. Recursive on the host: a
// matrix is cut in halves until a part is narrow enough for one kernel, and what remains are products. The same steps
// as core/cpu/matrix_triangular.cpp.
#include "core/decompose.h"
#include "core/visit_word.h"
#include "cuda/matrix.cuh"
#include "cuda/reduce.cuh"

namespace mantissa::cuda_backend {

void copy(const View& y, const View& x);  // cuda/copy.cu
void fill(const View& y, double value);

namespace {

constexpr int narrow = 32;  // rows or columns that a single kernel handles
std::int64_t half_of(std::int64_t n) { return std::max<std::int64_t>(narrow, n / 2 / narrow * narrow); }

// --- triangular systems ---
constexpr int system_columns = 64;  // per block, one per thread

// x := t^-1 x for t [n, n] with n <= 32.
template <class T> __global__ void solve_kernel(Matrices<const T> t, Matrices<T> x, bool upper, bool unit) {
  wait_for_previous_kernel();
  __shared__ T triangle[narrow][narrow + 1], part[narrow][system_columns + 1];
  const int n = static_cast<int>(t.rows), me = static_cast<int>(threadIdx.x);
  const std::int64_t first = std::int64_t{blockIdx.x} * system_columns;
  const bool by_rows = x.column <= x.row;
  for (std::int64_t matrix = blockIdx.y; matrix < x.count; matrix += gridDim.y) {
    for (int u = me; u < n * n; u += system_columns) triangle[u / n][u % n] = t(matrix, u / n, u % n);
    const auto for_part = [&](auto&& f) {
      for (int u = me; u < n * system_columns; u += system_columns) {
        const int i = by_rows ? u / system_columns : u % n, j = by_rows ? u % system_columns : u / n;
        if (first + j < x.columns) f(part[i][j], x(matrix, i, first + j));
      }
    };
    for_part([](T& here, const T& there) { here = there; });
    __syncthreads();
    if (first + me < x.columns) {
      for (int k = 0; k < n; ++k) {
        const int i = upper ? n - 1 - k : k, begin = upper ? i + 1 : 0, end = upper ? n : i;
        T v = part[i][me];
        for (int j = begin; j < end; ++j) v -= triangle[i][j] * part[j][me];
        part[i][me] = unit ? v : v / triangle[i][i];
      }
    }
    __syncthreads();
    for_part([](const T& here, T& there) { there = here; });
    __syncthreads();
  }
}

template <class T> void solve(const Matrices<const T>& t, const Matrices<T>& x, bool upper, bool unit) {
  const std::int64_t n = t.rows, m = x.columns;
  if (x.count == 0 || n == 0 || m == 0) return;
  if (n <= narrow) {
    Grid grid = grid_for(m, 1, system_columns);
    grid.blocks.y = blocks_for(x.count);
    return launch("solve_triangular", &solve_kernel<T>, grid, t, x, upper, unit);
  }
  const std::int64_t h = half_of(n);
  const Matrices<T> first = x.part(0, 0, h, m), second = x.part(h, 0, n - h, m);
  if (upper) {
    solve(t.part(h, h, n - h, n - h), second, upper, unit);
    add_product(T(-1), t.part(0, h, h, n - h), second, first);
    solve(t.part(0, 0, h, h), first, upper, unit);
  } else {
    solve(t.part(0, 0, h, h), first, upper, unit);
    add_product(T(-1), t.part(h, 0, n - h, h), first, second);
    solve(t.part(h, h, n - h, n - h), second, upper, unit);
  }
}

// --- Cholesky ---
// A warp per matrix a [n, n] with n <= 32; lane i computes row i. `first` is a's first row in the whole matrix.
template <class T> __global__ void cholesky_kernel(Matrices<T> a, std::int64_t* wrong, std::int64_t first) {
  wait_for_previous_kernel();
  __shared__ T l[narrow][narrow + 1];
  const int n = static_cast<int>(a.rows), i = static_cast<int>(threadIdx.x);
  for (std::int64_t matrix = blockIdx.x; matrix < a.count; matrix += gridDim.x) {
    for (int r = 0; r < n; ++r)
      if (i < n) l[r][i] = i <= r ? a(matrix, r, i) : T(0);
    __syncwarp();
    for (int k = 0; k < n; ++k) {
      T v = i < n ? l[i][k] : T(1);
      if (i >= k && i < n)
        for (int p = 0; p < k; ++p) v -= l[i][p] * l[k][p];
      const T pivot = __shfl_sync(all_lanes, v, k);
      if (i == k && !(pivot > T(0)) && wrong[matrix] < 0) wrong[matrix] = first + k;
      if (i >= k && i < n) l[i][k] = i == k ? std::sqrt(pivot) : v / std::sqrt(pivot);
      __syncwarp();
    }
    for (int r = 0; r < n; ++r)
      if (i < n) a(matrix, r, i) = l[r][i];
    __syncwarp();
  }
}

template <class T> void cholesky(const Matrices<T>& a, std::int64_t* wrong, std::int64_t first) {
  const std::int64_t n = a.rows;
  if (n <= narrow) {
    const Grid grid{dim3(blocks_for(a.count)), dim3(32)};
    return launch("cholesky", &cholesky_kernel<T>, grid, a, wrong, first);
  }
  const std::int64_t h = half_of(n);
  const Matrices<T> left = a.part(0, 0, h, h), below = a.part(h, 0, n - h, h), rest = a.part(h, h, n - h, n - h);
  cholesky(left, wrong, first);
  solve<T>(left, below.transposed(), false, false);
  add_product(T(-1), below, below.transposed(), rest);  // also above the diagonal, where nothing is read
  cholesky(rest, wrong, first + h);
}

// --- LU ---
// A block per matrix a [m, n] with n <= 32 and n <= m. pivots: counted from the first row of the whole matrix, which is
// `first` rows above.
template <class T>
__global__ void eliminate_kernel(Matrices<T> a, std::int64_t* pivots, std::int64_t pivots_item, std::int64_t first) {
  wait_for_previous_kernel();
  __shared__ T sizes[32], pivot_row[narrow];
  __shared__ std::int64_t places[32];
  const int n = static_cast<int>(a.columns), me = static_cast<int>(threadIdx.x), lane = me % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (std::int64_t matrix = blockIdx.x; matrix < a.count; matrix += gridDim.x) {
    for (int k = 0; k < n; ++k) {
      T most = T(-1);  // NaN is never chosen
      std::int64_t at = k;
      for (std::int64_t i = k + me; i < a.rows; i += blockDim.x) {
        const T size = std::abs(a(matrix, i, k));
        if (size > most) most = size, at = i;
      }
      const T largest = fold_block<Max>(most, sizes);
      const std::int64_t pivot = largest < T(0) ? k : fold_block<Min>(most == largest ? at : a.rows, places);
      if (me < n) {
        T &here = a(matrix, k, me), &there = a(matrix, pivot, me);
        const T chosen = there;
        there = here;
        here = pivot_row[me] = chosen;
      }
      if (me == 0) pivots[matrix * pivots_item + k] = first + pivot;
      __syncthreads();
      const T divisor = pivot_row[k] == T(0) ? T(1) : pivot_row[k];  // below a pivot of 0 there are only zeros
      for (std::int64_t i = k + 1 + me / 32; i < a.rows; i += warps) {
        const T v = lane < n ? a(matrix, i, lane) : T(0);
        const T factor = __shfl_sync(all_lanes, v, k) / divisor;
        if (lane >= k && lane < n) a(matrix, i, lane) = lane == k ? factor : v - factor * pivot_row[lane];
      }
      __syncthreads();
    }
  }
}

// Rows in the order that the exchanges give: order[i] is the row that comes to place i. A thread follows the exchanges.
constexpr int shared_rows = 8192;
__global__ void order_kernel(std::int32_t* order, const std::int64_t* pivots, std::int64_t pivots_item,
                             std::int64_t pivots_step, std::int64_t matrices, std::int64_t rows, std::int64_t count,
                             std::int64_t first, bool back) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(std::int32_t, shared);
  for (std::int64_t matrix = blockIdx.x; matrix < matrices; matrix += gridDim.x) {
    std::int32_t *const result = order + matrix * rows, *const work = rows <= shared_rows ? shared : result;
    for (std::int64_t i = threadIdx.x; i < rows; i += blockDim.x) work[i] = static_cast<std::int32_t>(i);
    __syncthreads();
    for (std::int64_t k = 0; threadIdx.x == 0 && k < count; ++k) {
      const std::int64_t i = back ? count - 1 - k : k;
      const std::int64_t j = pivots[matrix * pivots_item + i * pivots_step] - first;
      if (j < 0 || j >= rows) continue;  // not made by an elimination
      const std::int32_t here = work[i];
      work[i] = work[j];
      work[j] = here;
    }
    __syncthreads();
    if (work != result)
      for (std::int64_t i = threadIdx.x; i < rows; i += blockDim.x) result[i] = work[i];
    __syncthreads();
  }
}
// Moves the rows that change their place: from x to `moved` in their order, and back without one.
template <class Word>
__global__ void move_rows_kernel(Matrices<Word> to, Matrices<const Word> from, const std::int32_t* order,
                                 std::int64_t order_item, bool in_order) {
  wait_for_previous_kernel();
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (u >= to.rows * to.columns) return;
  const std::int64_t i = u / to.columns, j = u % to.columns;
  for (std::int64_t matrix = blockIdx.y; matrix < to.count; matrix += gridDim.y) {
    const std::int64_t source = order[matrix * order_item + i];
    if (source != i) to(matrix, i, j) = from(matrix, in_order ? source : i, j);
  }
}

struct Pivots {
  const std::int64_t* data;
  std::int64_t item, step;    // strides
  std::int64_t count, first;  // how many exchanges; the number of x's first row
};
// x's rows exchanged in sequence, or in reverse (`back`).
template <class Word> void exchange(const Matrices<Word>& x, const Pivots& p, bool back) {
  if (x.count == 0 || x.rows == 0 || x.columns == 0 || p.count == 0) return;
  check(x.rows <= 0x7fffffff, "internal error: a matrix of ", x.rows, " rows is too large");
  const Device device{DeviceType::cuda, static_cast<std::int8_t>(current_device())};
  const std::int64_t orders = p.item == 0 ? 1 : x.count;
  const Tensor order = Tensor::allocate(Dims{orders, x.rows}, i32, device);
  Grid lists{dim3(blocks_for(orders)), dim3(128)};
  if (x.rows <= shared_rows) lists.shared = static_cast<std::size_t>(x.rows) * sizeof(std::int32_t);
  launch("row_order", &order_kernel, lists, order.data<std::int32_t>(), p.data, p.item, p.step, orders, x.rows, p.count,
         p.first, back);
  const std::int64_t order_item = orders == 1 ? 0 : x.rows;
  const Dtype dtype = sizeof(Word) == 8 ? f64 : f32;
  const Tensor memory = Tensor::allocate(Dims{x.count, x.rows, x.columns}, dtype, device);
  const auto moved = matrices_of<Word>(memory.view());
  Grid grid = grid_for(x.rows * x.columns);
  grid.blocks.y = blocks_for(x.count);
  launch("exchange_rows", &move_rows_kernel<Word>, grid, moved, Matrices<const Word>(x), order.data<std::int32_t>(),
         order_item, true);
  launch("exchange_rows", &move_rows_kernel<Word>, grid, x, Matrices<const Word>(moved), order.data<std::int32_t>(),
         order_item, false);
}

// a [m, n] with m >= n.
template <class T>
void eliminate(const Matrices<T>& a, std::int64_t* pivots, std::int64_t pivots_item, std::int64_t first) {
  const std::int64_t m = a.rows, n = a.columns;
  if (n <= narrow) {
    unsigned threads = 32;
    while (threads < 512 && threads * 4 < m * 8) threads *= 2;  // about eight rows per warp
    const Grid grid{dim3(blocks_for(a.count)), dim3(threads)};
    return launch("lu_factor", &eliminate_kernel<T>, grid, a, pivots, pivots_item, first);
  }
  const std::int64_t h = half_of(n);
  const Matrices<T> right = a.part(0, h, m, n - h), corner = a.part(0, 0, h, h), rest = a.part(h, h, m - h, n - h);
  eliminate(a.part(0, 0, m, h), pivots, pivots_item, first);
  exchange(right, {pivots, pivots_item, 1, h, first}, false);
  solve<T>(corner, right.part(0, 0, h, n - h), false, true);
  add_product(T(-1), a.part(h, 0, m - h, h), right.part(0, 0, h, n - h), rest);
  eliminate(rest, pivots + h, pivots_item, first + h);
  exchange(a.part(h, 0, m - h, h), {pivots + h, pivots_item, 1, n - h, first + h}, false);
}

template <class T> __global__ void clear_above_kernel(Matrices<T> a) {
  wait_for_previous_kernel();
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, i = u / a.columns, j = u % a.columns;
  if (i >= a.rows || j <= i) return;
  for (std::int64_t matrix = blockIdx.y; matrix < a.count; matrix += gridDim.y) a(matrix, i, j) = T(0);
}

}  // namespace

void dense_cholesky(const View& a, const View& wrong) {
  fill(wrong, -1);
  if (a.numel() == 0) return;
  visit_precise(a.dtype, [&]<class T>() {
    const Matrices<T> m = matrices_of<T>(a);
    cholesky(m, wrong.as<std::int64_t>(), 0);
    Grid grid = grid_for(m.rows <= narrow ? 0 : m.rows * m.columns);
    grid.blocks.y = blocks_for(m.count);
    launch("cholesky", &clear_above_kernel<T>, grid, m);
  });
}
void dense_lu(const View& a, const View& pivots) {
  if (a.numel() == 0) return;
  visit_precise(a.dtype,
                [&]<class T>() { eliminate(matrices_of<T>(a), pivots.as<std::int64_t>(), pivots.strides[0], 0); });
}
void dense_exchange(const View& x, const View& pivots, bool back) {
  visit_word(x.dtype, [&]<class Word>() {
    if constexpr (sizeof(Word) >= 4) {
      exchange(matrices_of<Word>(x),
               {pivots.as<const std::int64_t>(), pivots.strides[0], pivots.strides[1], pivots.size(1), 0}, back);
    }
  });
}
void dense_solve(const View& t, const View& x, Triangle triangle) {
  const bool unit = triangle == Triangle::unit_lower || triangle == Triangle::unit_upper;
  const bool upper = triangle == Triangle::upper || triangle == Triangle::unit_upper;
  visit_precise(x.dtype, [&]<class T>() { solve(matrices_of<const T>(t), matrices_of<T>(x), upper, unit); });
}

}  // namespace mantissa::cuda_backend
