// Sums and averages of bags of rows of a matrix, which are not materialised. Mirrors core/cpu/bags.cpp.
#include "core/bags.h"

#include "core/kernel.h"
#include "cuda/launch.cuh"
#include "cuda/vec.cuh"

namespace mantissa {
MANTISSA_KERNEL(check_offsets, const View& offsets, std::int64_t indices)
MANTISSA_KERNEL(sum_bags, const View& y, const View& weight, const View& indices, const View& offsets,
                const View& factors, const Bags& how)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

__global__ void check_offsets_kernel(const std::int64_t* offsets, std::int64_t step, std::int64_t bags,
                                    std::int64_t indices, Note* note) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= bags) return;
  const std::int64_t begin = offsets[i * step], end = offsets[(i + 1) * step];
  if ((i > 0 || begin == 0) && begin <= end && (i + 1 < bags || end == indices)) return;
  note_out_of_range(note, 3, begin, indices, i);
}

// A thread for each `each` neighbouring columns of each bag. Wrong indices and offsets, noted before, read nothing.
template <class T, int each>
__global__ void sum_bags_kernel(T* y, const T* weight, const std::int64_t* indices, const std::int64_t* offsets,
                                const T* factors, std::int64_t bags, std::int64_t columns, std::int64_t rows,
                                std::int64_t count, Bags how) {
  wait_for_previous_kernel();
  using C = Compute<T>;
  using Part = Neighbours<T, each>;
  const std::int64_t parts = columns / each, u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (u >= bags * parts) return;
  const std::int64_t bag = u / parts, column = u % parts * each, begin = offsets[bag],
                     end = begin >= 0 && offsets[bag + 1] <= count && rows > 0 ? offsets[bag + 1] : begin;
  C sums[each] = {};
  std::int64_t terms = 0;
#pragma unroll 4
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t row = indices[i];
    const bool counts = row >= 0 && row < rows && row != how.padding;
    const C factor = factors ? widen<C>(factors[i]) : C(1);
    // without a branch, so that several rows are loaded at once
    const Part part = *reinterpret_cast<const Part*>(weight + (counts ? row : 0) * columns + column);
#pragma unroll
    for (int k = 0; k < each; ++k) sums[k] += counts ? factor * widen<C>(part.v[k]) : C(0);
    terms += counts;
  }
  const C divisor = how.mean && terms > 0 ? static_cast<C>(terms) : C(1);
  Part part;
#pragma unroll
  for (int k = 0; k < each; ++k) part.v[k] = convert<T>(sums[k] / divisor);
  if constexpr (each == 1) y[bag * columns + column] = part.v[0];
  else store_whole(y + bag * columns + column, part);
}

template <class T, int each>
void run(const View& y, const View& weight, const View& indices, const View& offsets, const View& factors,
         const Bags& how) {
  const std::int64_t bags = y.sizes[0], columns = y.sizes[1];
  launch("sum_bags", &sum_bags_kernel<T, each>, grid_for(bags * (columns / each)), y.as<T>(), weight.as<const T>(),
         indices.as<const std::int64_t>(), offsets.as<const std::int64_t>(), factors.as<const T>(), bags, columns,
         weight.sizes[0], indices.numel(), how);
}

}  // namespace

void check_offsets(const View& offsets, std::int64_t indices) {
  const std::int64_t bags = offsets.numel() - 1;
  launch("check_offsets", &check_offsets_kernel, grid_for(bags), offsets.as<const std::int64_t>(), offsets.strides[0],
         bags, indices, note());
}

void sum_bags(const View& y, const View& weight, const View& indices, const View& offsets, const View& factors,
              const Bags& how) {
  visit_floating(y.dtype, [&]<class T>() {
    constexpr int each = 16 / sizeof(T);
    const bool aligned = y.sizes[1] % each == 0 && reinterpret_cast<std::uintptr_t>(y.data) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(weight.data) % 16 == 0;
    if (aligned) run<T, each>(y, weight, indices, offsets, factors, how);
    else run<T, 1>(y, weight, indices, offsets, factors, how);
  });
}

}  // namespace mantissa::cuda_backend
