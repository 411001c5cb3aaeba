// Eigenvalues and eigenvectors of symmetric matrices by Jacobi's method: a small matrix by one thread block, larger
// ones in pairs of blocks of columns (cuda/matrix_jacobi.cuh).
#include "core/decompose.h"
#include "cuda/matrix_jacobi.cuh"

namespace mantissa::cuda_backend {

void fill(const View& y, double value);  // cuda/copy.cu

namespace {

template <class T> inline constexpr T epsilon = std::numeric_limits<T>::epsilon();

// Copies the lower triangle to the upper one, scaled. A block per matrix.
template <class T> __global__ void prepare_kernel(Matrices<T> a, Progress<T>* progress) {
  wait_for_previous_kernel();
  __shared__ T scratch[32];
  for (std::int64_t matrix = blockIdx.x; matrix < a.count; matrix += gridDim.x) {
    const T most = fold_elements_of<Max>(
        a, scratch, [&](std::int64_t i, std::int64_t j) { return j <= i ? std::abs(a(matrix, i, j)) : T(0); });
    const bool finite = most <= std::numeric_limits<T>::max();
    const T scale = finite ? scale_for(most) : T(1);
    const T squares = fold_elements_of<Sum>(a, scratch, [&](std::int64_t i, std::int64_t j) {
      if (j > i) return T(0);
      const T v = a(matrix, i, j) * scale;
      a(matrix, i, j) = v;
      if (j < i) a(matrix, j, i) = v;
      return j < i ? 2 * v * v : v * v;
    });
    const T limit = epsilon<T> * std::sqrt(squares / static_cast<T>(a.rows));
    if (threadIdx.x == 0) progress[matrix] = {scale, {limit, 0, 0}, 0, !finite, finite};
  }
}

// The matrix of a pair of blocks, or a whole one.
template <class T, class Where> __device__ void load(Small<T>& m, int k, Where&& element) {
  const int even = k + k % 2;
  for (int u = static_cast<int>(threadIdx.x); u < even * even; u += static_cast<int>(blockDim.x)) {
    const int i = u % even, j = u / even;
    m.a[i][j] = i < k && j < k ? element(i, j) : T(0);
  }
  set_identity(m.q);
  __syncthreads();
}

// A block for each matrix of at most `side` rows. vectors_t: unless null, row c becomes the vector of column c.
template <class T> __global__ void small_kernel(Matrices<T> a, Matrices<T> vectors_t, Progress<T>* progress) {
  wait_for_previous_kernel();
  __shared__ Small<T> m;
  const int k = static_cast<int>(a.rows);
  for (std::int64_t matrix = blockIdx.x; matrix < a.count; matrix += gridDim.x) {
    if (progress[matrix].done) continue;
    load(m, k, [&](int i, int j) { return a(matrix, i, j); });
    const int sweeps = make_diagonal(m, k, progress[matrix].zero);
    for (int u = static_cast<int>(threadIdx.x); u < k * k; u += static_cast<int>(blockDim.x)) {
      const int i = u % k, j = u / k;
      if (i == j) a(matrix, i, i) = m.a[i][i];
      if (vectors_t.data) vectors_t(matrix, j, i) = m.q[i][j];
    }
    __syncthreads();
    if (threadIdx.x == 0) progress[matrix].done = sweeps < most_small_sweeps;
  }
}

// Diagonalises the matrix of each pair of blocks in place.
template <class T> __global__ void pairs_kernel(Round<T> r, Matrices<T> a) {
  wait_for_previous_kernel();
  __shared__ Small<T> m;
  const int match = static_cast<int>(blockIdx.x);
  const Pair<T> pair = r.pair(match);
  for (std::int64_t matrix = blockIdx.y; matrix < r.count; matrix += gridDim.y) {
    if (r.progress[matrix].done) continue;
    load(m, pair.count, [&](int i, int j) { return a(matrix, pair[i], pair[j]); });
    const bool turned = make_diagonal(m, pair.count, r.progress[matrix].zero) > 0;
    sort_diagonal(m, pair.count);
    r.keep(m, matrix, match, turned);
    for (int u = static_cast<int>(threadIdx.x); turned && u < pair.count * pair.count; u += jacobi_threads) {
      const int i = u % pair.count, j = u / pair.count;
      a(matrix, pair[m.place[i]], pair[m.place[j]]) = m.a[i][j];
    }
    __syncthreads();
  }
}

// The part of a with the rows of one pair and the columns of another one is rotated from both sides. A block computes
// it and its mirror image, so that a stays symmetric to the last bit.
template <class T> __global__ void turn_both_kernel(Round<T> r, Matrices<T> a) {
  wait_for_previous_kernel();
  const int above = static_cast<int>(blockIdx.y), beside = static_cast<int>(blockIdx.x);
  if (above >= beside) return;
  __shared__ T part[side<T>][side<T> + 1], q[side<T>][side<T> + 1];
  constexpr int each = side<T> / 16;
  const int me = static_cast<int>(threadIdx.x), x = me % 16, y = me / 16;
  const Pair<T> rows = r.pair(above), columns = r.pair(beside);
  for (std::int64_t matrix = blockIdx.z; matrix < r.count; matrix += gridDim.z) {
    const bool turns_rows = r.is_active(matrix, above), turns_columns = r.is_active(matrix, beside);
    if (r.progress[matrix].done || (!turns_rows && !turns_columns)) continue;
    const auto multiply = [&](auto&& left, auto&& right, int depth) {  // part := left right
      T sums[each][each] = {};
      for (int k = 0; k < depth; ++k)
#pragma unroll
        for (int i = 0; i < each; ++i)
#pragma unroll
          for (int j = 0; j < each; ++j) sums[i][j] += left(x + 16 * i, k) * right(k, y + 16 * j);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < each; ++i)
#pragma unroll
        for (int j = 0; j < each; ++j) part[y + 16 * j][x + 16 * i] = sums[i][j];
    };
    for (int u = me; u < side<T> * side<T>; u += jacobi_threads) {  // part[column][row]
      const int i = u % side<T>, j = u / side<T>;
      part[j][i] = i < rows.count && j < columns.count ? a(matrix, rows[i], columns[j]) : T(0);
    }
    if (turns_columns) {
      r.load_turn(q, matrix, beside);
      __syncthreads();
      multiply([&](int i, int k) { return part[k][i]; }, [&](int k, int j) { return q[k][j]; }, columns.count);
    }
    if (turns_rows) {
      __syncthreads();
      r.load_turn(q, matrix, above);
      __syncthreads();
      multiply([&](int i, int k) { return q[k][i]; }, [&](int k, int j) { return part[j][k]; }, rows.count);
    }
    __syncthreads();
    for (int u = me; u < side<T> * side<T>; u += jacobi_threads) {
      const int low = u % side<T>, high = u / side<T>;
      if (low < rows.count && high < columns.count) a(matrix, rows[low], columns[high]) = part[high][low];
      if (high < rows.count && low < columns.count) a(matrix, columns[low], rows[high]) = part[low][high];
    }
    __syncthreads();
  }
}

template <class T> __global__ void diagonal_kernel(T* d, Matrices<const T> a) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= a.rows) return;
  for (std::int64_t matrix = blockIdx.y; matrix < a.count; matrix += gridDim.y)
    d[matrix * a.rows + i] = a(matrix, i, i);
}

template <class T> void decompose(const View& given, const View& values, const View& vectors_t, const View& good) {
  const Matrices<T> a = matrices_of<T>(given);
  const std::int64_t count = a.count, n = a.rows;
  const Tensor memory = progress_memory<T>(given.device, count);
  Progress<T>* const progress = progress_of<T>(memory);
  Grid by_matrix = grid_for_rows(count, n * n);
  by_matrix.blocks.x = blocks_for(count);
  launch("eigh", &prepare_kernel<T>, by_matrix, a, progress);
  const bool wanted = vectors_t.data != nullptr;
  const OwnMatrices<T> rows(given.device, wanted ? count : 0, n, n);  // vectors in rows
  if (n <= side<T>) {
    const Grid grid{dim3(blocks_for(count)), dim3(n <= 8 ? 32 : n <= 16 ? 64 : jacobi_threads)};
    const Matrices<T> to = wanted ? Matrices<T>(rows) : Matrices<T>{};
    launch("eigh", &small_kernel<T>, grid, a, to, progress);
  } else {
    if (wanted) set_identity(rows);
    sweep<T>("eigh", given.device, progress, count, n, [&](const Round<T>& round) {
      const auto matches = static_cast<unsigned>(round.matches());
      launch("eigh", &pairs_kernel<T>, Grid{dim3(matches, blocks_for(count)), dim3(jacobi_threads)}, round, a);
      launch("eigh", &turn_both_kernel<T>, Grid{dim3(matches, matches, blocks_for(count)), dim3(jacobi_threads)}, round,
             a);
      if (wanted) turn_columns<T>("eigh", round, rows.transposed());
    });
  }
  const Tensor d = Tensor::allocate({count, n}, given.dtype, given.device);
  Grid grid = grid_for(n);
  grid.blocks.y = blocks_for(count);
  launch("eigh", &diagonal_kernel<T>, grid, d.data<T>(), Matrices<const T>(a));
  const Tensor order = order_of<T>("eigh", d, false);
  store_values<T>("eigh", progress, d, order, values, good);
  if (wanted) sort_rows<T>("eigh", progress, order, matrices_of<T>(vectors_t), rows);
}

}  // namespace

void dense_eigh(const View& a, const View& values, const View& vectors_t, const View& good) {
  if (a.numel() == 0) return fill(good, 1.0);
  visit_precise(a.dtype, [&]<class T>() { decompose<T>(a, values, vectors_t, good); });
}

}  // namespace mantissa::cuda_backend
