// A row by a column: one sum, over strided vectors in place.
#include "core/gemm_ways.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace mantissa {

MANTISSA_KERNEL(gemm_dot, Dtype dtype, std::int64_t n, const void* a, std::int64_t a_step, const void* b,
                std::int64_t b_step, double* sum)

bool gemm_ways::is_dot(const Product& p) {
  constexpr std::int64_t least = 16;  // below, the plain loops of other algorithms are as fast
  return p.plain() && p.y.numel() == 1 && p.k() >= least && (p.dtypes_agree() || p.is_wide());
}
void gemm_ways::multiply_dot(const Product& p) {
  constexpr std::int64_t piece = 64 << 10;  // products worth waking a thread for
  const std::int64_t k = p.k(), pieces = (k + piece - 1) / piece, a_step = column_stride(p.a), b_step = row_stride(p.b);
  const auto size = static_cast<std::int64_t>(size_of(p.a.dtype));
  double one = 0;
  ScratchVector<double> several(static_cast<std::size_t>(pieces > 1 ? pieces : 0));
  double* const sums = pieces > 1 ? several.data() : &one;
  parallel_for(pieces, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = i * piece;
      const char* const a = p.a.as<const char>() + begin * a_step * size;
      const char* const b = p.b.as<const char>() + begin * b_step * size;
      kernels::gemm_dot(cpu, p.a.dtype, std::min(piece, k - begin), a, a_step, b, b_step, sums + i);
    }
  });
  double total = 0;
  for (std::int64_t i = 0; i < pieces; ++i) total += sums[i];
  visit_floating(p.y.dtype, [&]<class T> { *p.y.as<T>() = static_cast<T>(static_cast<Compute<T>>(total)); });
}

}  // namespace mantissa
