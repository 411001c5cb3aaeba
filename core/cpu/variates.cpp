// Gamma, Poisson and binomial variates, one at a time; only the first counters are computed together.
#include "core/variates.h"

#include <algorithm>

#include "core/cpu/philox.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(draw_variates, const View& y, const View& a, const View& b, Variate which, std::uint64_t seed,
                std::uint64_t offset)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {

void draw_variates(const View& y, const View& a, const View& b, Variate which, std::uint64_t seed,
                   std::uint64_t offset) {
  const double *p = a.as<const double>(), *q = b.as<const double>();
  double* const to = y.as<double>();
  parallel_for(y.numel(), 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += philox_counters) {
      const std::uint64_t first = offset + static_cast<std::uint64_t>(i);
      std::uint32_t bits[4 * philox_counters];
      philox_bits(seed, first, bits);
      for (std::int64_t k = 0; k < std::min<std::int64_t>(philox_counters, end - i); ++k) {
        const std::uint32_t* const w = bits + 4 * k;
        const variates::Draws draws(seed, first + static_cast<std::uint64_t>(k), {{w[0], w[1], w[2], w[3]}});
        to[i + k] = variates::draw(which, p[i + k], q[i + k], draws);
      }
    }
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
