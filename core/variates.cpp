#include "core/variates.h"

#include "core/kernel.h"
#include "core/ops.h"

namespace mantissa {

// All contiguous, f64 and of the same sizes. Element i uses counter offset + i.
MANTISSA_KERNEL(draw_variates, const View& y, const View& a, const View& b, Variate which, std::uint64_t seed,
                std::uint64_t offset)

Tensor draw_variates(Variate which, const Tensor& a, const Tensor& b) {
  const Tensor first = contiguous(cast(a, f64)), second = b.defined() ? contiguous(cast(b, f64)) : first;
  const Tensor y = Tensor::allocate(a.sizes(), f64, a.device());
  const RngState at = reserve_random(static_cast<std::uint64_t>(a.numel()));
  kernels::draw_variates(a.device(), y.view(), first.view(), second.view(), which, at.seed, at.offset);
  return y;
}

}  // namespace mantissa
