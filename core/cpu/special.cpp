// Special functions: unary ones in vectors of f64, binary ones one element at a time.
#include "core/special_functions.h"

#include "core/cpu/vectors.h"
#include "core/kernel.h"
#include "core/layout.h"
#include "core/parallel.h"

namespace mantissa {
// y has x's sizes; any strides. which: special::Unary.
MANTISSA_KERNEL(special_unary, const View& y, const View& x, int which)
// a and b broadcast. which: special::Binary.
MANTISSA_KERNEL(special_binary, const View& y, const View& a, const View& b, int which)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {

void special_unary(const View& y, const View& x, int which) {
  const special::UnaryFunction function{static_cast<special::Unary>(which)};
  visit_compute(y.dtype, [&]<class C> {
    const Dense<C> from(x);
    DenseResult<C> to(y);
    parallel_for(y.numel(), 1024, [&](std::int64_t begin, std::int64_t end) {
      constexpr std::int64_t tile = 256;
      double buffer[tile];
      for (std::int64_t i = begin; i < end; i += tile) {
        const std::int64_t n = std::min(tile, end - i);
        convert_run(buffer, from.data() + i, 1, n);
        for_vectors<double>(n, [&](const auto& lanes, std::int64_t j) {
          lanes.store(buffer + j, function.formula(lanes.load(buffer + j)));
        });
        convert_run(to.data() + i, buffer, 1, n);
      }
    });
    to.finish();
  });
}

void special_binary(const View& y, const View& a, const View& b, int which) {
  const special::BinaryFunction function{static_cast<special::Binary>(which)};
  const auto spread = [&](const View& v) {
    View all = v;
    all.sizes = y.sizes;
    all.strides = broadcast_strides(v.sizes, v.strides, y.sizes);
    return all;
  };
  visit_compute(y.dtype, [&]<class C> {
    const Dense<C> x0(spread(a)), x1(spread(b));
    DenseResult<C> to(y);
    parallel_for(y.numel(), 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to.data()[i] = function.f(x0.data()[i], x1.data()[i]);
    });
    to.finish();
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
