#include "core/gemm_fused.h"

#include "core/kernel.h"
#include "core/pointwise.h"

namespace mantissa {

MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y, std::span<const View* const> x)
MANTISSA_KERNEL(reduce_sum, const View& y, const View& x, double divisor)
MANTISSA_CUDA_KERNEL(gemm_act, const View& y, const View& before, const View& a, const View& b, const View& bias,
                     Activation activation)
MANTISSA_KERNEL(add_in_place, const View& y, const View& x, double alpha)
MANTISSA_CUDA_KERNEL(gemm_and_sums, const View& y, const View& sums, const View& a, const View& b, bool add)

void kernels::gemm_and_sums(Device device, const View& y, const View& sums, const View& a, const View& b, bool add) {
  if (!device.is_cpu() && y.dtype != f64 && y.numel() > 0 && a.size(1) > 0)
    return cuda_backend::prepare(&cuda_backend::gemm_and_sums, device)(y, sums, a, b, add);
  gemm(device, y, a, b, {}, {}, add);
  View column = sums;
  column.sizes = {sums.size(0), 1};
  column.strides = {sums.strides[0], 1};
  if (!add) return kernels::reduce_sum(device, column, a, 1.0);
  const Tensor more = Tensor::allocate(column.sizes, sums.dtype, device);
  kernels::reduce_sum(device, more.view(), a, 1.0);
  kernels::add_in_place(device, column, more.view(), 1.0);
}

void kernels::activate(Device device, const View& y, const View& x, Activation activation) {
  const auto run = [&]<class F>(const F& formula) {
    const View* one = &x;
    const std::span<const View* const> inputs(&one, 1);
    kernels::pointwise(device, pointwise::opcode<F>, static_cast<const void*>(&formula), compute_dtype(y.dtype), y, inputs);
  };
  switch (activation) {
    case Activation::relu: return run(pointwise::Relu{});
    case Activation::gelu: return run(pointwise::Gelu{});
    case Activation::gelu_tanh: return run(pointwise::GeluTanh{});
    case Activation::none: fail("internal error: no activation");
  }
}

// On a GPU products of halves have an epilogue. Elsewhere the activation reads what is still in the cache, if anything is.
void kernels::gemm_act(Device device, const View& y, const View& before, const View& a, const View& b, const View& bias,
                       Activation activation, const KeptWeight& kept) {
  if (y.numel() == 0) return;
  if (!device.is_cpu() && is_half(y.dtype) && a.size(1) > 0)
    return cuda_backend::prepare(&cuda_backend::gemm_act, device)(y, before, a, b, bias, activation);
  const View& product = before ? before : y;
  gemm(device, product, a, b, bias, kept);
  activate(device, y, product, activation);
}

}  // namespace mantissa
