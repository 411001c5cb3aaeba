// Products and extremes of the elements that an index maps to the same position. A line along the indexed dimension
// belongs to one block and is processed in order, so results do not depend on threads.
#include <algorithm>

#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(check_indices, const View& index, std::int64_t size)
// y (initialised to x's elements, or the identity) in the compute dtype, contiguous, the indexed dimension last.
MANTISSA_KERNEL(scatter_reduce, const View& y, const View& index, const View& source, int kind)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class C> C combine(int kind, C a, C b) {
  if (kind == 0) return a * b;
  if (a != a || b != b) return a != a ? a : b;
  return kind == 1 ? std::max(a, b) : std::min(a, b);
}

}  // namespace

void scatter_reduce(const View& y, const View& index, const View& source, int kind) {
  check_indices(index, y.sizes.back());
  const auto run = [&]<class C> {
    const Dense<std::int64_t> at(index);
    const Dense<C> from(source);
    const int last = y.dim() - 1;
    const std::int64_t n = index.sizes[last];
    if (n == 0 || index.numel() == 0) return;
    parallel_for(
        index.numel() / n, std::max<std::int64_t>(1, grain_size / n), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t line = begin; line < end; ++line) {
            // offset of the line of y: an index may be smaller than y in other dimensions
            std::int64_t rest = line, to = 0;
            for (int d = last - 1; d >= 0; --d) {
              to += rest % index.sizes[d] * y.strides[d];
              rest /= index.sizes[d];
            }
            C* out = y.as<C>() + to;
            for (std::int64_t i = 0; i < n; ++i) {
              C& place = out[at.data()[line * n + i]];
              place = combine(kind, place, from.data()[line * n + i]);
            }
          }
        });
  };
  if (y.dtype == f64) run.template operator()<double>();
  else if (y.dtype == f32) run.template operator()<float>();
  else run.template operator()<std::int64_t>();
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
