// Singular values and vectors: with columns in the order of their lengths, A = Q R; then R^T's columns are rotated
// until they are orthogonal (Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958), in
// pairs of blocks of columns (cuda/matrix_jacobi.cuh). Without QR and order the rotations would need many more sweeps
// where singular values differ by powers of ten (Drmac and Veselic, "New fast and accurate Jacobi SVD algorithm",
// 2008). R^T W = Y, so the lengths of Y's columns are the singular values, Q W has the left singular vectors, and the
// right ones are the directions of Y's columns: by another QR, which also completes them where a singular value is 0.
#include "core/decompose.h"
#include "cuda/matrix_jacobi.cuh"

namespace mantissa::cuda_backend {

void fill(const View& y, double value);  // cuda/copy.cu

namespace {

// Scales a; a matrix with NaN or infinity becomes NaN. A block per matrix.
template <class T> __global__ void prepare_kernel(Matrices<T> a, Progress<T>* progress) {
  wait_for_previous_kernel();
  __shared__ T scratch[32];
  for (std::int64_t matrix = blockIdx.x; matrix < a.count; matrix += gridDim.x) {
    const T most =
        fold_elements_of<Max>(a, scratch, [&](std::int64_t i, std::int64_t j) { return std::abs(a(matrix, i, j)); });
    const bool finite = most <= std::numeric_limits<T>::max();
    const T scale = finite ? scale_for(most) : T(1);
    const T squares = fold_elements_of<Sum>(a, scratch, [&](std::int64_t i, std::int64_t j) {
      T& v = a(matrix, i, j);
      v = finite ? v * scale : static_cast<T>(__builtin_nan(""));
      return v * v;
    });
    // How far from orthogonal rounding leaves columns of this length; what is shorter than the rounding errors of the
    // whole matrix need not be more precise than these.
    constexpr T epsilon = std::numeric_limits<T>::epsilon();
    const T limit = epsilon * (4 + std::sqrt(static_cast<T>(a.columns)) / 4), least = epsilon * std::sqrt(squares);
    if (threadIdx.x == 0) progress[matrix] = {scale, {0, limit, least}, 0, !finite, finite};
  }
}

// The upper triangle of `from`, zeros below.
template <class T> __global__ void triangle_kernel(Matrices<T> to, Matrices<const T> from) {
  wait_for_previous_kernel();
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, i = u / to.columns, j = u % to.columns;
  if (i >= to.rows) return;
  for (std::int64_t matrix = blockIdx.y; matrix < to.count; matrix += gridDim.y)
    to(matrix, i, j) = j < i ? T(0) : from(matrix, i, j);
}

// Finds the rotation that makes the columns of each pair of blocks orthogonal: that which makes the matrix of their
// scalar products diagonal. y [n, n], column-major.
template <class T> __global__ void pairs_kernel(Round<T> r, Matrices<const T> y) {
  wait_for_previous_kernel();
  __shared__ Small<T> m;
  constexpr int each = side<T> / 16;
  const int match = static_cast<int>(blockIdx.x), me = static_cast<int>(threadIdx.x), x = me % 16, z = me / 16;
  const Pair<T> pair = r.pair(match);
  for (std::int64_t matrix = blockIdx.y; matrix < r.count; matrix += gridDim.y) {
    if (r.progress[matrix].done) continue;
    T sums[each][each] = {};
    for (std::int64_t first = 0; first < y.rows; first += side<T>) {
      for (int u = me; u < side<T> * side<T>; u += jacobi_threads) {
        const int c = u / side<T>, i = u % side<T>;
        m.q[c][i] = c < pair.count && first + i < y.rows ? y(matrix, first + i, pair[c]) : T(0);
      }
      __syncthreads();
      const int depth = y.rows - first < side<T> ? static_cast<int>(y.rows - first) : side<T>;
      for (int k = 0; k < depth; ++k)
#pragma unroll
        for (int i = 0; i < each; ++i)
#pragma unroll
          for (int j = 0; j < each; ++j) sums[i][j] += m.q[x + 16 * i][k] * m.q[z + 16 * j][k];
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) m.a[x + 16 * i][z + 16 * j] = sums[i][j];
    set_identity(m.q);
    __syncthreads();
    const bool turned = make_diagonal(m, pair.count, r.progress[matrix].zero) > 0;
    sort_diagonal(m, pair.count);
    r.keep(m, matrix, match, turned);
    __syncthreads();
  }
}

// The lengths of the rows of x. A warp each, in blocks of (32, 8).
template <class T> __global__ void lengths_kernel(T* d, Matrices<const T> x) {
  wait_for_previous_kernel();
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (c >= x.rows) return;  // applies to a whole warp
  for (std::int64_t matrix = blockIdx.y; matrix < x.count; matrix += gridDim.y) {
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < x.columns; i += 32) {
      const auto v = static_cast<double>(x(matrix, c, i));
      sum += v * v;
    }
    sum = fold_warp<Sum>(sum);
    if (threadIdx.x == 0) d[matrix * x.rows + c] = static_cast<T>(std::sqrt(sum));
  }
}

// Row c of v_t := row c of `from` with the columns that belong to a's, and the sign that R has on its diagonal; NaN if
// the matrix was not finite.
template <class T>
__global__ void right_vectors_kernel(const Progress<T>* progress, const std::int32_t* order, Matrices<T> v_t,
                                     Matrices<const T> from, Matrices<const T> r) {
  wait_for_previous_kernel();
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, c = u / v_t.columns, i = u % v_t.columns;
  if (c >= v_t.rows) return;
  for (std::int64_t matrix = blockIdx.y; matrix < v_t.count; matrix += gridDim.y) {
    const T v = from(matrix, c, order[matrix * v_t.columns + i]);
    v_t(matrix, c, i) = !progress[matrix].finite ? static_cast<T>(__builtin_nan("")) : r(matrix, c, c) < T(0) ? -v : v;
  }
}

template <class T>
void decompose(const View& given, const View& values, const View& u_t, const View& v_t, const View& good) {
  const char* const name = "svd";
  const Device device = given.device;
  const Matrices<T> a = matrices_of<T>(given);
  const std::int64_t count = a.count, m = a.rows, n = a.columns;
  const bool vectors = u_t.data != nullptr;
  const Tensor memory = progress_memory<T>(device, count);
  Progress<T>* const progress = progress_of<T>(memory);
  Grid by_matrix = grid_for_rows(count, m * n);
  by_matrix.blocks.x = blocks_for(count);
  launch(name, &prepare_kernel<T>, by_matrix, a, progress);

  const Tensor d = Tensor::allocate({count, n}, given.dtype, device);
  const Grid by_length{dim3(static_cast<unsigned>((n + 7) / 8), blocks_for(count)), dim3(32, 8)};
  Grid by_element = grid_for(n * n);
  by_element.blocks.y = blocks_for(count);
  launch(name, &lengths_kernel<T>, by_length, d.data<T>(), Matrices<const T>(a.transposed()));
  const Tensor columns = order_of<T>(name, d, true);
  const OwnMatrices<T> q_t(device, count, n, m), tau(device, count, 1, n);  // Q and R, columns in rows
  sort_rows<T>(name, progress, columns, q_t, a.transposed());
  reflect_to_triangle(q_t.transposed(), tau.data);

  const OwnMatrices<T> y(device, count, n, n), w(device, vectors ? count : 0, n, n);  // columns in rows
  launch(name, &triangle_kernel<T>, by_element, y, Matrices<const T>(q_t.transposed()));
  if (vectors) set_identity(w);
  sweep<T>(name, device, progress, count, n, [&](const Round<T>& round) {
    const Grid grid{dim3(static_cast<unsigned>(round.matches()), blocks_for(count)), dim3(jacobi_threads)};
    launch(name, &pairs_kernel<T>, grid, round, Matrices<const T>(y.transposed()));
    turn_columns<T>(name, round, y.transposed());
    if (vectors) turn_columns<T>(name, round, w.transposed());
  });
  launch(name, &lengths_kernel<T>, by_length, d.data<T>(), Matrices<const T>(y));
  const Tensor order = order_of<T>(name, d, true);
  store_values<T>(name, progress, d, order, values, good);
  if (!vectors) return;

  const Matrices<T> left = matrices_of<T>(u_t);
  set_identity(left);
  sort_rows<T>(name, progress, order, left.part(0, 0, n, n), w);
  multiply_reflections(left.transposed(), q_t.transposed(), tau.data, {n, n, 1});
  const Matrices<T>& sorted = w;  // its memory, which is not needed any more
  const OwnMatrices<T> right(device, count, n, n);
  sort_rows<T>(name, progress, order, sorted, y);
  reflect_to_triangle(sorted.transposed(), tau.data);
  set_identity(right);
  multiply_reflections(right.transposed(), sorted.transposed(), tau.data, {n, n, 1});
  launch(name, &right_vectors_kernel<T>, by_element, progress, columns.data<std::int32_t>(), matrices_of<T>(v_t),
         Matrices<const T>(right), Matrices<const T>(sorted));
}

}  // namespace

void dense_svd(const View& a, const View& values, const View& u_t, const View& v_t, const View& good) {
  if (a.numel() == 0) return fill(good, 1.0);
  visit_precise(a.dtype, [&]<class T>() { decompose<T>(a, values, u_t, v_t, good); });
}

}  // namespace mantissa::cuda_backend
