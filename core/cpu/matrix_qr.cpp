// QR decompositions by blocked Householder reflections (Golub and Van Loan, Matrix Computations, 5.2).
#include "core/cpu/matrix_reflect.h"
#include "core/decompose.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

double work_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

}  // namespace

void dense_qr(const View& a, const View& tau) {
  const std::int64_t m = a.size(1), n = a.size(2);
  visit_precise(a.dtype, [&]<class T> {
    for_matrices(a.size(0), work_of(m, n, std::min(m, n)), [&](std::int64_t item) {
      reflect_to_triangle(matrix_of<T>(a, item), tau.as<T>() + item * tau.strides[0]);
    });
  });
}

void dense_reflections(const View& q, const View& v, const View& tau) {
  const std::int64_t count = tau.size(1);
  visit_precise(q.dtype, [&]<class T> {
    const Memory<T> factors(q.size(0) * count);
    for (std::int64_t i = 0; i < q.size(0) * count; ++i)
      factors[i] = tau.as<const T>()[i / count * tau.strides[0] + i % count * tau.strides[1]];
    for_matrices(q.size(0), work_of(q.size(1), q.size(2), count), [&](std::int64_t item) {
      const Matrix<T> to = matrix_of<T>(q, item);
      set_identity(to);
      multiply_reflections(to, matrix_of<T>(v, item), factors.data() + item * count, count, 0, true);
    });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
