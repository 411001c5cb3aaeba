// lgamma, digamma and polygamma, one element at a time; lgamma of f32, f16 and bf16 in vectors of f64.
#include "core/gamma_functions.h"

#include "core/cpu/vectors.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
// y has x's sizes and dtype; any strides. order: see special::GammaFunction.
MANTISSA_KERNEL(gamma_function, const View& y, const View& x, std::int64_t order)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {

void gamma_function(const View& y, const View& x, std::int64_t order) {
  const special::GammaFunction function{order};
  visit_compute(x.dtype, [&]<class C> {
    const Dense<C> from(x);
    DenseResult<C> to(y);
    const bool in_vectors = order < 0 && std::is_same_v<C, float>;
    parallel_for(y.numel(), in_vectors ? 2048 : 256, [&](std::int64_t begin, std::int64_t end) {
      if (!in_vectors) {
        for (std::int64_t i = begin; i < end; ++i) to.data()[i] = function.f(from.data()[i]);
        return;
      }
      constexpr std::int64_t tile = 256;
      double buffer[tile];
      for (std::int64_t i = begin; i < end; i += tile) {
        const std::int64_t n = std::min(tile, end - i);
        convert_run(buffer, from.data() + i, 1, n);
        for_vectors<double>(n, [&](const auto& lanes, std::int64_t j) {
          lanes.store(buffer + j, special::log_gamma_formula(lanes.load(buffer + j)));
        });
        convert_run(to.data() + i, buffer, 1, n);
      }
    });
    to.finish();
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
