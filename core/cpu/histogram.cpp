// Histograms: counts of numbers between edges, and counts of integers by value.
#include <algorithm>
#include <vector>

#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
// y [edges - 1], f64: the number of elements of x in each half-open bin [edge, next edge), or the sum of their weights.
// The last bin includes the last edge. All are contiguous; the weight may be absent.
MANTISSA_KERNEL(count_between, const View& y, const View& x, const View& edges, const View& weight)
// y[v], i64: how many elements of x equal v. x is i64 and contiguous; its values have been checked.
MANTISSA_KERNEL(count_values, const View& y, const View& x)
}  // namespace mantissa

namespace mantissa::cpu_backend::MANTISSA_ISA {

void count_between(const View& y, const View& x, const View& edges, const View& weight) {
  // Blocks have separate counts, which are added in order: the number of blocks depends on the shape, not on threads.
  constexpr std::int64_t least = 1 << 15, most_blocks = 16;
  const std::int64_t n = x.numel(), bins = y.numel();
  const std::int64_t block = std::max({least, bins, (n + most_blocks - 1) / most_blocks});
  const std::int64_t blocks = (n + block - 1) / block;
  std::vector<double> counts(static_cast<std::size_t>(blocks * bins));
  visit_compute(x.dtype, [&]<class C> {
    const Dense<C> numbers(x), bounds(edges), weights(weight);
    const C *const e = bounds.data(), first = e[0], last = e[bins];
    const C per_unit = static_cast<C>(bins) / (last - first);
    const auto bin_of = [=](C v) {
      // usually edges are equally spaced; where they are not, or rounding interferes, the bin is searched
      const C guess = (v - first) * per_unit;
      const std::int64_t g = guess >= 0 && guess < static_cast<C>(bins) ? static_cast<std::int64_t>(guess) : 0;
      if (e[g] <= v && v < e[g + 1]) return g;
      return std::min<std::int64_t>(bins, std::upper_bound(e, e + bins + 1, v) - e) - 1;
    };
    parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        double* const count = counts.data() + b * bins;
        for (std::int64_t i = b * block; i < std::min(n, (b + 1) * block); ++i) {
          const C v = numbers.data()[i];
          if (v >= first && v <= last) count[bin_of(v)] += weights.data() ? static_cast<double>(weights.data()[i]) : 1;
        }
      }
    });
  });
  double* const sums = y.as<double>();
  std::fill_n(sums, bins, 0.0);
  for (std::int64_t b = 0; b < blocks; ++b)
    for (std::int64_t i = 0; i < bins; ++i) sums[i] += counts[static_cast<std::size_t>(b * bins + i)];
}

void count_values(const View& y, const View& x) {
  const std::int64_t n = x.numel(), bins = y.numel();
  const std::int64_t* const v = x.as<const std::int64_t>();
  std::int64_t* const counts = y.as<std::int64_t>();
  std::fill_n(counts, bins, 0);
  // Several tables, so that runs of equal values do not read a count that was just written (store forwarding).
  constexpr std::int64_t tables = 4, few = 1024, block = 1 << 16;
  if (bins > few || n < 2 * block) {
    for (std::int64_t i = 0; i < n; ++i) ++counts[v[i]];
    return;
  }
  const std::int64_t blocks = (n + block - 1) / block;
  std::vector<std::int64_t> parts(static_cast<std::size_t>(blocks * bins));
  parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::int32_t table[tables][few] = {};
      const std::int64_t first = b * block, last = std::min(n, first + block);
      std::int64_t i = first;
      for (; i + tables <= last; i += tables)
        for (std::int64_t k = 0; k < tables; ++k) ++table[k][v[i + k]];
      for (; i < last; ++i) ++table[0][v[i]];
      for (std::int64_t j = 0; j < bins; ++j)
        parts[static_cast<std::size_t>(b * bins + j)] = table[0][j] + table[1][j] + table[2][j] + table[3][j];
    }
  });
  for (std::int64_t b = 0; b < blocks; ++b)
    for (std::int64_t j = 0; j < bins; ++j) counts[j] += parts[static_cast<std::size_t>(b * bins + j)];
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
