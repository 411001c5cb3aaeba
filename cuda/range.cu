// arange and linspace on the device, with the numbers of core/factories.cpp.
#include "core/kernel.h"
#include "cuda/launch.cuh"
#include "cuda/vec.cuh"

namespace mantissa {
MANTISSA_CUDA_KERNEL(fill_range, const View& y, double begin, double step, double parts, double last)
}

namespace mantissa::cuda_backend {
namespace {

__global__ void fill_range_kernel(void* y, Dtype dtype, std::int64_t n, double begin, double step, double parts,
                                  double last) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  // the division also keeps the product and the sum from becoming one instruction, which would round only once
  const double v = begin + step * static_cast<double>(i) / parts;
  store_element(y, dtype, i, i == n - 1 && last == last ? last : v);
}

}  // namespace

void fill_range(const View& y, double begin, double step, double parts, double last) {
  const std::int64_t n = y.numel();
  launch("fill_range", &fill_range_kernel, grid_for(n), y.data, y.dtype, n, begin, step, parts, last);
}

}  // namespace mantissa::cuda_backend
