// Compares two results up to rounding, on the device: the tuner (cuda/tuner.cpp) does this for every way it tries, and
// reading gigabytes on the host would take longer than the timing.
#include <bit>

#include "core/kernel.h"
#include "cuda/rows.cuh"
#include "cuda/tuner.h"

namespace mantissa {
MANTISSA_KERNEL(fill, const View& y, double value)
}

namespace mantissa::cuda_backend {
namespace {

constexpr std::int64_t most_blocks = 1024;

// found: the bits of max |a|, of max |a - b|, and of 1 if exactly one is finite and far from overflow. Bit patterns of
// nonnegative floats order as the values do.
__global__ void agree_kernel(RowOperand a, RowOperand b, std::int64_t n, float nearly_infinite, unsigned* found) {
  wait_for_previous_kernel();
  __shared__ float scratch[32];
  float most[3] = {0, 0, 0};
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const float x = std::abs(load_element<float>(a.data, a.dtype, i)),
                y = std::abs(load_element<float>(b.data, b.dtype, i));
    const bool x_finite = x < __builtin_huge_valf(), y_finite = y < __builtin_huge_valf();
    if (x_finite != y_finite) {
      if ((x_finite ? x : y) < nearly_infinite) most[2] = 1;
    } else if (x_finite) {
      const float away = std::abs(load_element<float>(a.data, a.dtype, i) - load_element<float>(b.data, b.dtype, i));
      if (x > most[0]) most[0] = x;
      if (away > most[1]) most[1] = away;
    }
  }
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const float largest = fold_block<Max>(most[k], scratch);
    if (threadIdx.x == 0) atomicMax(found + k, std::bit_cast<unsigned>(largest));
  }
}

}  // namespace

bool agree(const View& a, const View& b, std::optional<Dtype> rounded_to) {
  check(a.dtype == b.dtype && a.numel() == b.numel(), "internal error: results that cannot be compared");
  const DenseInput left(a), right(b);
  const Tensor found = Tensor::allocate({3}, f32, a.device);
  kernels::fill(a.device, found.view(), 0.0);
  const std::int64_t n = a.numel();
  Grid grid = grid_for(std::min(n, most_blocks * block_size));
  const Dtype least = rounded_to.value_or(a.dtype);
  const float nearly_infinite = least == f16 ? 6e4f : 3e38f;
  launch("agree", agree_kernel, grid, operand(left.view), operand(right.view), n, nearly_infinite,
         static_cast<unsigned*>(found.raw_data()));
  const std::vector<float> most = found.to_vector<float>();
  return most[2] == 0 && most[1] <= most[0] * (least == bf16 ? 2e-2f : least == f16 ? 4e-3f : 1e-3f);
}

}  // namespace mantissa::cuda_backend
