// Batches of dense matrices for the decompositions of core/decompose.h: a pointer, sizes and strides, so that parts and
// transposes are views. Mirrors core/cpu/matrix.h. Each function enqueues work for a whole batch; none waits, and how
// many kernels are launched depends on the shape only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/tensor.h"
#include "cuda/launch.cuh"

namespace mantissa::cuda_backend {

template <class T> struct Matrices {
  T* data;
  std::int64_t count, rows, columns;
  std::int64_t item, row, column;  // strides of matrices, rows and columns, in elements

  __device__ T& operator()(std::int64_t matrix, std::int64_t i, std::int64_t j) const {
    return data[matrix * item + i * row + j * column];
  }
  Matrices part(std::int64_t i, std::int64_t j, std::int64_t part_rows, std::int64_t part_columns) const {
    return {data + i * row + j * column, count, part_rows, part_columns, item, row, column};
  }
  Matrices transposed() const { return {data, count, columns, rows, item, column, row}; }
  template <class U>
  requires(std::is_same_v<U, const T>) operator Matrices<U>() const {
    return {data, count, rows, columns, item, row, column};
  }
};

template <class T> Matrices<T> matrices_of(const View& v) {
  return {v.as<T>(), v.size(0), v.size(1), v.size(2), v.strides[0], v.strides[1], v.strides[2]};
}
// New memory for a batch, row-major, or column-major as a transpose. The tensor owns it.
template <class T> struct OwnMatrices : Matrices<T> {
  Tensor memory;
  OwnMatrices(Device device, std::int64_t count, std::int64_t rows, std::int64_t columns)
      : memory(Tensor::allocate({count, rows, columns}, dtype_of<T>, device)) {
    static_cast<Matrices<T>&>(*this) = matrices_of<T>(memory.view());
  }
};

// A block (or a row of blocks) for each matrix; kernels take more matrices than blocks in turns.
inline unsigned blocks_for(std::int64_t matrices) {
  return static_cast<unsigned>(std::min<std::int64_t>(matrices, 65535));
}

// c += alpha a b; or c := a b. c must not overlap a or b. In T's own arithmetic. (cuda/matrix_product.cu)
void add_product(float alpha, const Matrices<const float>& a, const Matrices<const float>& b, const Matrices<float>& c);
void add_product(double alpha, const Matrices<const double>& a, const Matrices<const double>& b,
                 const Matrices<double>& c);
void set_product(const Matrices<const float>& a, const Matrices<const float>& b, const Matrices<float>& c);
void set_product(const Matrices<const double>& a, const Matrices<const double>& b, const Matrices<double>& c);

// Householder reflections (cuda/matrix_qr.cu). reflect_to_triangle: as dense_qr; tau [count, min(rows, columns)],
// contiguous. multiply_reflections: q := the product of the reflections stored below v's diagonal, times q.
void reflect_to_triangle(const Matrices<float>& a, float* tau);
void reflect_to_triangle(const Matrices<double>& a, double* tau);
struct Factors {  // tau's: how many per matrix, and strides
  std::int64_t count, item, step;
};
void multiply_reflections(const Matrices<float>& q, const Matrices<const float>& v, const float* tau, const Factors& f);
void multiply_reflections(const Matrices<double>& q, const Matrices<const double>& v, const double* tau,
                          const Factors& f);
// Ones on the diagonal, zeros elsewhere.
void set_identity(const Matrices<float>& a);
void set_identity(const Matrices<double>& a);

}  // namespace mantissa::cuda_backend
