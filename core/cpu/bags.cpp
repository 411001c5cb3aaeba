// Sums and averages of bags of rows of a matrix: embedding bags without gradients, which are not materialised as rows.
#include "core/cpu/reduce_source.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
// Bag i consists of the indices bounds[i] to bounds[i + 1] (exclusive), which have been checked; an empty bag gives 0.
// f16 and bf16 are summed in f32 and rounded once. All are contiguous.
MANTISSA_KERNEL(sum_bags, const View& y, const View& weight, const View& indices, const View& bounds, bool mean)
}  // namespace mantissa

namespace mantissa::cpu_backend::MANTISSA_ISA {

void sum_bags(const View& y, const View& weight, const View& indices, const View& bounds, bool mean) {
  const std::int64_t bags = y.sizes[0], columns = y.sizes[1];
  const std::int64_t work = columns * std::max<std::int64_t>(1, indices.numel() / std::max<std::int64_t>(1, bags));
  visit_floating(y.dtype, [&]<class T> {
    using C = Compute<T>;
    constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
    parallel_for(bags, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, work)),
                 [&](std::int64_t first, std::int64_t last) {
                   const std::int64_t *index = indices.as<const std::int64_t>(),
                                      *bound = bounds.as<const std::int64_t>();
                   for (std::int64_t bag = first; bag < last; ++bag) {
                     const std::int64_t begin = bound[bag], end = bound[bag + 1];
                     const Vec<C> divisor(static_cast<C>(mean && end > begin ? end - begin : 1));
                     for_columns<C>(columns, [&]<int w>(const auto& of, std::int64_t j) {
                       Vec<C> sum[w];
                       for (Vec<C>& s : sum) s = Vec<C>(C(0));
                       for (std::int64_t i = begin; i < end; ++i) {
                         const T* row = weight.as<const T>() + index[i] * columns + j;
                         for (int k = 0; k < w; ++k) sum[k] = sum[k] + stored_vector<C>(of, row + k * width);
                       }
                       for (int k = 0; k < w; ++k)
                         of.store(y.as<T>() + bag * columns + j + k * width, sum[k] / divisor);
                     });
                   }
                 });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
