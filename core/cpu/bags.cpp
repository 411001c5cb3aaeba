// Sums and averages of bags of rows of a matrix, which are not materialised, and their gradient.
#include "core/bags.h"

#include "core/cpu/add_rows.h"
#include "core/cpu/reduce_source.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(check_offsets, const View& offsets, std::int64_t indices)
MANTISSA_KERNEL(sum_bags, const View& y, const View& weight, const View& indices, const View& offsets,
                const View& factors, const Bags& how)
MANTISSA_KERNEL(add_bags, const View& y, const View& g, const View& indices, const View& offsets)
}  // namespace mantissa

namespace mantissa::cpu_backend::MANTISSA_ISA {

void check_offsets(const View& offsets, std::int64_t indices) {
  const std::int64_t bags = offsets.numel() - 1, step = offsets.strides[0];
  const std::int64_t* const b = offsets.as<const std::int64_t>();
  for (std::int64_t i = 0; i < bags; ++i) {
    const std::int64_t begin = b[i * step], end = b[(i + 1) * step];
    check((i > 0 || begin == 0) && begin <= end && (i + 1 < bags || end == indices), wrong_offsets, indices, "; bag ",
          i, " is from ", begin, " to ", end);
  }
}

void sum_bags(const View& y, const View& weight, const View& indices, const View& offsets, const View& factors,
              const Bags& how) {
  const std::int64_t bags = y.sizes[0], columns = y.sizes[1];
  const std::int64_t work = columns * std::max<std::int64_t>(1, indices.numel() / std::max<std::int64_t>(1, bags));
  visit_floating(y.dtype, [&]<class T> {
    using C = Compute<T>;
    constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
    parallel_for(bags, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, work)),
                 [&](std::int64_t first, std::int64_t last) {
                   const std::int64_t *index = indices.as<const std::int64_t>(),
                                      *offset = offsets.as<const std::int64_t>();
                   const T* const factor = factors.as<const T>();
                   for (std::int64_t bag = first; bag < last; ++bag) {
                     const std::int64_t begin = offset[bag], end = offset[bag + 1];
                     const std::int64_t count = end - begin - std::count(index + begin, index + end, how.padding);
                     const Vec<C> divisor(static_cast<C>(how.mean && count > 0 ? count : 1));
                     for_columns<C>(columns, [&]<int w>(const auto& of, std::int64_t j) {
                       Vec<C> sum[w];
                       for (Vec<C>& s : sum) s = Vec<C>(C(0));
                       for (std::int64_t i = begin; i < end; ++i) {
                         if (index[i] == how.padding) continue;
                         const T* row = weight.as<const T>() + index[i] * columns + j;
                         if (factor) {
                           const Vec<C> f(static_cast<C>(factor[i]));
                           for (int k = 0; k < w; ++k) sum[k] = sum[k] + f * stored_vector<C>(of, row + k * width);
                         } else {
                           for (int k = 0; k < w; ++k) sum[k] = sum[k] + stored_vector<C>(of, row + k * width);
                         }
                       }
                       for (int k = 0; k < w; ++k)
                         of.store(y.as<T>() + bag * columns + j + k * width, sum[k] / divisor);
                     });
                   }
                 });
  });
}

void add_bags(const View& y, const View& g, const View& indices, const View& offsets) {
  const std::int64_t bags = g.sizes[0], columns = g.sizes[1];
  const std::int64_t *index = indices.as<const std::int64_t>(), *offset = offsets.as<const std::int64_t>();
  visit_floating(y.dtype, [&]<class T> {
    add_rows<T>(
        y, columns, indices.numel(), [=](std::int64_t i) { return index[i]; },
        [&](std::int64_t first, const auto& add) {
          for (std::int64_t bag = 0; bag < bags; ++bag) {
            const T* from = g.as<const T>() + bag * columns + first;
            for (std::int64_t i = offset[bag]; i < offset[bag + 1]; ++i) add(i, from);
          }
        });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
