// Products of matrices with any strides, which decompositions add to parts of a matrix, in f32 or f64 without Tensor
// Cores: gemm, which may use these, writes contiguous results only. A block of 256 threads computes a tile of 64 x 64.
#include "cuda/matrix.cuh"

namespace mantissa::cuda_backend {
namespace {

constexpr int tile = 64, depth = 16, threads = 256, each = 4;  // a thread computes every 16th row and column

// Copies a part of a matrix to shared memory, zeros beyond its end; neighbouring threads read what is adjacent.
template <int rows, int columns, class T>
__device__ void load(T (&to)[rows][columns + 1], const Matrices<const T>& m, std::int64_t matrix, std::int64_t i0,
                     std::int64_t j0) {
  const bool by_rows = m.column <= m.row;
  for (int u = static_cast<int>(threadIdx.x); u < rows * columns; u += threads) {
    const int i = by_rows ? u / columns : u % rows, j = by_rows ? u % columns : u / rows;
    to[i][j] = i0 + i < m.rows && j0 + j < m.columns ? m(matrix, i0 + i, j0 + j) : T(0);
  }
}

template <class T>
__global__ void __launch_bounds__(threads, 2)
    product_kernel(T alpha, Matrices<const T> a, Matrices<const T> b, Matrices<T> c, bool add) {
  wait_for_previous_kernel();
  __shared__ T left[tile][depth + 1], right[depth][tile + 1];
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
  const std::int64_t i0 = std::int64_t{blockIdx.y} * tile, j0 = std::int64_t{blockIdx.x} * tile;
  for (std::int64_t matrix = blockIdx.z; matrix < c.count; matrix += gridDim.z) {
    T sums[each][each] = {};
    for (std::int64_t k = 0; k < a.columns; k += depth) {
      load<tile, depth>(left, a, matrix, i0, k);
      load<depth, tile>(right, b, matrix, k, j0);
      __syncthreads();
#pragma unroll 4
      for (int d = 0; d < depth; ++d)
#pragma unroll
        for (int i = 0; i < each; ++i)
#pragma unroll
          for (int j = 0; j < each; ++j) sums[i][j] += left[y + 16 * i][d] * right[d][x + 16 * j];
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const std::int64_t row = i0 + y + 16 * i, column = j0 + x + 16 * j;
        if (row >= c.rows || column >= c.columns) continue;
        T& to = c(matrix, row, column);
        to = add ? to + alpha * sums[i][j] : sums[i][j];
      }
  }
}

template <class T>
void run(T alpha, const Matrices<const T>& a, const Matrices<const T>& b, const Matrices<T>& c, bool add) {
  if (c.count == 0 || c.rows == 0 || c.columns == 0) return;
  // Neighbouring threads should write what is adjacent: the transpose of a product is the product of the transposes.
  if (c.row < c.column) return run(alpha, b.transposed(), a.transposed(), c.transposed(), add);
  const std::int64_t down = (c.rows + tile - 1) / tile, across = (c.columns + tile - 1) / tile;
  check(down <= 65535, "internal error: a matrix of ", c.rows, " rows is too large for one launch");
  const Grid grid{dim3(static_cast<unsigned>(across), static_cast<unsigned>(down), blocks_for(c.count)), dim3(threads)};
  launch("matrix_product", &product_kernel<T>, grid, alpha, a, b, c, add);
}

template <class T> __global__ void identity_kernel(Matrices<T> a) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= a.rows * a.columns) return;
  const bool by_rows = a.column <= a.row;
  const std::int64_t r = by_rows ? i / a.columns : i % a.rows, c = by_rows ? i % a.columns : i / a.rows;
  for (std::int64_t matrix = blockIdx.y; matrix < a.count; matrix += gridDim.y) a(matrix, r, c) = r == c ? T(1) : T(0);
}
template <class T> void run_identity(const Matrices<T>& a) {
  Grid grid = grid_for(a.count == 0 ? 0 : a.rows * a.columns);
  grid.blocks.y = blocks_for(a.count);
  launch("identity", &identity_kernel<T>, grid, a);
}

}  // namespace

void add_product(float alpha, const Matrices<const float>& a, const Matrices<const float>& b,
                 const Matrices<float>& c) {
  run(alpha, a, b, c, true);
}
void add_product(double alpha, const Matrices<const double>& a, const Matrices<const double>& b,
                 const Matrices<double>& c) {
  run(alpha, a, b, c, true);
}
void set_product(const Matrices<const float>& a, const Matrices<const float>& b, const Matrices<float>& c) {
  run(1.0f, a, b, c, false);
}
void set_product(const Matrices<const double>& a, const Matrices<const double>& b, const Matrices<double>& c) {
  run(1.0, a, b, c, false);
}
void set_identity(const Matrices<float>& a) { run_identity(a); }
void set_identity(const Matrices<double>& a) { run_identity(a); }

}  // namespace mantissa::cuda_backend
