// Order and search along a dimension: argsort, searchsorted, and the places of nonzero elements.
// Every line is ordered by (key, position), so equal keys keep their order and results do not depend
// on threads. NaN counts as the largest value, as in PyTorch.
#include <algorithm>
#include <numeric>
#include <vector>

#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(argsort, const View& index, const View& x, int dim, bool descending)
MANTISSA_KERNEL(searchsorted, const View& index, const View& sorted, const View& values, bool right)
MANTISSA_KERNEL(nonzero, const View& index, const View& x)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class F> void visit_key(Dtype t, F&& f) {
  switch (compute_dtype(t)) {
    case Dtype::f64: return f.template operator()<double>();
    case Dtype::f32: return f.template operator()<float>();
    default: return f.template operator()<std::int64_t>();
  }
}
template <class C> bool less(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) return a < b || (b != b && a == a);
  else return a < b;
}

// The positions of the first `count` of n keys in the wanted order.
template <class C>
void order_line(std::int64_t* out, const C* key, std::int64_t n, std::int64_t count, bool descending) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(n));
  std::iota(at.begin(), at.end(), 0);
  const auto before = [=](std::int64_t a, std::int64_t b) {
    const C first = key[a], second = key[b];
    if (descending ? less(second, first) : less(first, second)) return true;
    return a < b && !(descending ? less(first, second) : less(second, first));
  };
  if (count < n / 4) std::partial_sort(at.begin(), at.begin() + count, at.end(), before);
  else std::sort(at.begin(), at.end(), before);
  std::copy_n(at.begin(), count, out);
}

}  // namespace

// The result may be shorter than x along dim: then it holds the first of the order.
void argsort(const View& index, const View& x, int dim, bool descending) {
  if (index.numel() == 0) return;
  visit_key(x.dtype, [&]<class C> {
    const Dense<C> keys(moved_to_last(x, dim));
    DenseResult<std::int64_t> out(moved_to_last(index, dim));
    const std::int64_t n = x.sizes[dim], count = index.sizes[dim];
    parallel_for(x.numel() / n, std::max<std::int64_t>(1, grain_size / (8 * n)),
                 [&](std::int64_t first, std::int64_t last) {
                   for (std::int64_t r = first; r < last; ++r)
                     order_line(out.data() + r * count, keys.data() + r * n, n, count, descending);
                 });
    out.finish();
  });
}

// sorted [n], or [..., n] with values [..., m]: one sorted line for each line of values.
void searchsorted(const View& index, const View& sorted, const View& values, bool right) {
  if (index.numel() == 0) return;
  visit_key(promote(sorted.dtype, values.dtype), [&]<class C> {
    const Dense<C> lines(sorted), keys(values);
    DenseResult<std::int64_t> out(index);
    const std::int64_t n = sorted.sizes.back(), m = sorted.dim() == 1 ? values.numel() : values.sizes.back();
    parallel_for(values.numel(), grain_size / 16, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const C* begin = lines.data() + i / m * n;
        const C* at = right ? std::upper_bound(begin, begin + n, keys.data()[i], less<C>)
                            : std::lower_bound(begin, begin + n, keys.data()[i], less<C>);
        out.data()[i] = at - begin;
      }
    });
    out.finish();
  });
}

// index [count, rank of x], in row-major order; `count` is that of x's nonzero elements.
void nonzero(const View& index, const View& x) {
  visit_key(x.dtype, [&]<class C> {
    const Dense<C> values(x);
    std::int64_t* out = index.as<std::int64_t>();
    const int rank = x.dim();
    for (std::int64_t i = 0, n = x.numel(); i < n; ++i) {
      if (values.data()[i] == C(0)) continue;
      std::int64_t rest = i;
      for (int d = rank - 1; d >= 0; --d) {
        out[d] = rest % x.sizes[d];
        rest /= x.sizes[d];
      }
      out += rank;
    }
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
