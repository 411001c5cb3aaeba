// QR decompositions by blocked Householder reflections, for whole batches: 32 columns are reflected by a single kernel,
// a block per matrix, and applied to the columns beside them as H1 H2 ... = 1 - V T V^T, by products. The same steps as
// core/cpu/matrix_reflect.h.
#include "core/decompose.h"
#include "cuda/matrix.cuh"
#include "cuda/reduce.cuh"

namespace mantissa::cuda_backend {
namespace {

constexpr int block_columns = 32;

// A block of reflections: V [rows, columns], column-major, with its ones and zeros stored; T [columns, columns].
template <class T> struct Block { Matrices<T> v, t; };
template <class T> struct OwnBlock {
  OwnMatrices<T> v, t;
  OwnBlock(Device device, std::int64_t count, std::int64_t rows)
      : v(device, count, block_columns, rows), t(device, count, block_columns, block_columns) {}
  Block<T> of(std::int64_t rows, std::int64_t columns) const {
    return {v.part(0, 0, columns, rows).transposed(), t.part(0, 0, columns, columns)};
  }
};
template <class T> struct Reflected {  // shared memory
  T scratch[32], tau[block_columns], inner[block_columns][block_columns + 1], t[block_columns][block_columns + 1];
};

// The Euclidean norm of x[begin:end], also if squares are out of T's range; for a whole block.
template <class T> __device__ T norm_of(const T* x, std::int64_t begin, std::int64_t end, T* scratch) {
  T most = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) most = Max{}(most, std::abs(x[i]));
  most = fold_block<Max>(most, scratch);
  if (most == T(0)) return most;
  T sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const T part = x[i] / most;
    sum += part * part;
  }
  return most * std::sqrt(fold_block<Sum>(sum, scratch));
}

// Stores the ones and zeros of V, and computes T from V and tau.
template <class T> __device__ void join(const Block<T>& b, std::int64_t matrix, Reflected<T>& s) {
  const int n = static_cast<int>(b.v.columns), me = static_cast<int>(threadIdx.x), lane = me % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (int u = me; u < n * n; u += static_cast<int>(blockDim.x)) {
    const int i = u / n, j = u % n;
    if (i <= j) b.v(matrix, i, j) = i == j ? T(1) : T(0);
  }
  __syncthreads();
  for (int u = me / 32; u < n * n; u += warps) {
    const int i = u / n, j = u % n;
    if (i >= j) continue;  // the same for a warp
    const T *x = &b.v(matrix, 0, i), *y = &b.v(matrix, 0, j);
    T sum = 0;
    for (std::int64_t r = j + lane; r < b.v.rows; r += 32) sum += x[r] * y[r];
    sum = fold_warp<Sum>(sum);
    if (lane == 0) s.inner[i][j] = sum;
  }
  __syncthreads();
  for (int j = 0; me < n && j < n; ++j) {  // a thread per row
    T sum = 0;
    for (int p = me; p < j; ++p) sum += s.t[me][p] * s.inner[p][j];
    s.t[me][j] = j < me ? T(0) : j == me ? s.tau[j] : -s.tau[j] * sum;
    b.t(matrix, me, j) = s.t[me][j];
  }
  __syncthreads();
}

// a [m, n] with n <= 32 := R and the reflection vectors. V is work space, and T is computed `with_t`.
template <class T>
__global__ void reflect_kernel(Matrices<T> a, T* tau, std::int64_t tau_item, Block<T> b, bool with_t) {
  wait_for_previous_kernel();
  __shared__ Reflected<T> s;
  const std::int64_t m = a.rows;
  const int n = static_cast<int>(a.columns), me = static_cast<int>(threadIdx.x), lane = me % 32;
  const int warps = static_cast<int>(blockDim.x) / 32, count = n < m ? n : static_cast<int>(m);
  for (std::int64_t matrix = blockIdx.x; matrix < a.count; matrix += gridDim.x) {
    for (std::int64_t u = me; u < m * n; u += blockDim.x) b.v(matrix, u / n, u % n) = a(matrix, u / n, u % n);
    __syncthreads();
    for (int j = 0; j < count; ++j) {
      T* const x = &b.v(matrix, 0, j);
      const T first = x[j], below = norm_of(x, j + 1, m, s.scratch);
      const T size = std::hypot(first, below), length = below == T(0) ? first : first < T(0) ? size : -size;
      const T factor = below == T(0) ? T(0) : (length - first) / length;
      for (std::int64_t i = j + 1 + me; i < m && below != T(0); i += blockDim.x) x[i] /= first - length;
      __syncthreads();
      for (int k = j + 1 + me / 32; k < n; k += warps) {
        T* const y = &b.v(matrix, 0, k);
        T sum = lane == 0 ? y[j] : T(0);
        for (std::int64_t i = j + 1 + lane; i < m; i += 32) sum += x[i] * y[i];
        sum = factor * fold_warp<Sum>(sum);
        if (lane == 0) y[j] -= sum;
        for (std::int64_t i = j + 1 + lane; i < m; i += 32) y[i] -= sum * x[i];
      }
      if (me == 0) x[j] = length, s.tau[j] = tau[matrix * tau_item + j] = factor;
      __syncthreads();
    }
    for (std::int64_t u = me; u < m * n; u += blockDim.x) a(matrix, u / n, u % n) = b.v(matrix, u / n, u % n);
    __syncthreads();
    if (with_t) join(b, matrix, s);
  }
}

// V and T of the reflections stored below the diagonal of `from` [rows, columns].
template <class T> __global__ void join_kernel(Matrices<const T> from, const T* tau, Factors f, Block<T> b) {
  wait_for_previous_kernel();
  __shared__ Reflected<T> s;
  const int n = static_cast<int>(b.v.columns), me = static_cast<int>(threadIdx.x);
  for (std::int64_t matrix = blockIdx.x; matrix < from.count; matrix += gridDim.x) {
    for (std::int64_t u = me; u < from.rows * n; u += blockDim.x) {
      const std::int64_t i = u / n, j = u % n;
      if (i > j) b.v(matrix, i, j) = from(matrix, i, j);
    }
    if (me < n) s.tau[me] = tau[matrix * f.item + me * f.step];
    join(b, matrix, s);
  }
}

Grid grid_of(std::int64_t count, std::int64_t rows) {
  Grid grid = grid_for_rows(count, std::max<std::int64_t>(rows, block_columns));
  grid.blocks.x = std::min(grid.blocks.x, 65535u);
  return grid;
}

// c := (1 - V T V^T) c, or with T^T.
template <class T> void apply(const Block<T>& b, bool other_order, const Matrices<T>& c, Device device) {
  const std::int64_t k = b.v.columns;
  const OwnMatrices<T> inner(device, c.count, k, c.columns), turned(device, c.count, k, c.columns);
  set_product(b.v.transposed(), c, inner);
  set_product(other_order ? b.t.transposed() : b.t, inner, turned);
  add_product(T(-1), b.v, turned, c);
}

template <class T> void reflect(const Matrices<T>& a, T* tau) {
  const std::int64_t m = a.rows, n = a.columns, count = std::min(m, n);
  if (a.count == 0 || count == 0) return;
  const Device device{DeviceType::cuda, static_cast<std::int8_t>(current_device())};
  const OwnBlock<T> memory(device, a.count, m);
  for (std::int64_t k = 0; k < count; k += block_columns) {
    const std::int64_t width = std::min<std::int64_t>(block_columns, count - k), beside = n - k - width;
    const Block<T> block = memory.of(m - k, width);
    launch("qr", &reflect_kernel<T>, grid_of(a.count, m - k), a.part(k, k, m - k, width), tau + k, count, block,
           beside > 0);
    if (beside > 0) apply(block, true, a.part(k, k + width, m - k, beside), device);
  }
}

template <class T>
void multiply(const Matrices<T>& q, const Matrices<const T>& v, const T* tau, const Factors& f, bool is_identity) {
  if (q.count == 0 || q.rows == 0 || q.columns == 0 || f.count == 0) return;
  const Device device{DeviceType::cuda, static_cast<std::int8_t>(current_device())};
  const OwnBlock<T> memory(device, q.count, q.rows);
  for (std::int64_t k = (f.count - 1) / block_columns * block_columns; k >= 0; k -= block_columns) {
    const std::int64_t width = std::min<std::int64_t>(block_columns, f.count - k), m = q.rows - k;
    const Block<T> block = memory.of(m, width);
    launch("householder_product", &join_kernel<T>, grid_of(q.count, m), v.part(k, k, m, width), tau + k * f.step, f,
           block);
    const std::int64_t first = is_identity ? k : 0;  // earlier columns are zero in these rows
    if (first < q.columns) apply(block, false, q.part(k, first, m, q.columns - first), device);
  }
}

}  // namespace

void reflect_to_triangle(const Matrices<float>& a, float* tau) { reflect(a, tau); }
void reflect_to_triangle(const Matrices<double>& a, double* tau) { reflect(a, tau); }
void multiply_reflections(const Matrices<float>& q, const Matrices<const float>& v, const float* tau,
                          const Factors& f) {
  multiply(q, v, tau, f, false);
}
void multiply_reflections(const Matrices<double>& q, const Matrices<const double>& v, const double* tau,
                          const Factors& f) {
  multiply(q, v, tau, f, false);
}

void dense_qr(const View& a, const View& tau) {
  visit_precise(a.dtype, [&]<class T>() { reflect(matrices_of<T>(a), tau.as<T>()); });
}
void dense_reflections(const View& q, const View& v, const View& tau) {
  visit_precise(q.dtype, [&]<class T>() {
    const Matrices<T> to = matrices_of<T>(q);
    set_identity(to);
    multiply(to, matrices_of<const T>(v), tau.as<const T>(), {tau.size(1), tau.strides[0], tau.strides[1]}, true);
  });
}

}  // namespace mantissa::cuda_backend
