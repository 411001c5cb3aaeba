#include "core/gemm_fused.h"

#include "core/kernel.h"
#include "core/pointwise.h"

namespace mantissa {

MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y,
                std::span<const View* const> x)
MANTISSA_KERNEL(reduce_sum, const View& y, const View& x, double divisor)
MANTISSA_CUDA_KERNEL(gemm_act, const View& y, const View& before, const View& a, const View& b, const View& bias,
                     Activation activation)
MANTISSA_CUDA_KERNEL(gemm_act_backward, const View& y, const View& saved, const View& a, const View& b,
                     Activation activation)
MANTISSA_KERNEL(add_in_place, const View& y, const View& x, double alpha)
MANTISSA_CUDA_KERNEL(gemm_and_sums, const View& y, const View& sums, const View& a, const View& b, bool add)

void kernels::gemm_and_sums(Device device, const View& y, const View& sums, const View& a, const View& b, bool add) {
  const CountedFlops counted(product_flops(y, a));
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

namespace {

template <class F> void run_formula(Device device, const View& y, std::span<const View* const> inputs) {
  const F formula{};
  const Dtype compute = compute_dtype(y.dtype);
  kernels::pointwise(device, pointwise::opcode<F>, static_cast<const void*>(&formula), compute, y, inputs);
}

}  // namespace

void kernels::activate(Device device, const View& y, const View& x, Activation activation) {
  const View* inputs[] = {&x};
  switch (activation) {
    case Activation::relu: return run_formula<pointwise::Relu>(device, y, inputs);
    case Activation::gelu: return run_formula<pointwise::Gelu>(device, y, inputs);
    case Activation::gelu_tanh: return run_formula<pointwise::GeluTanh>(device, y, inputs);
    case Activation::none: fail("internal error: no activation");
  }
}
void kernels::activate_backward(Device device, const View& y, const View& g, const View& saved, Activation activation) {
  using namespace pointwise;
  const View* inputs[] = {&g, &saved};
  switch (activation) {
    case Activation::relu: return run_formula<GradOf<Relu>>(device, y, inputs);
    case Activation::gelu: return run_formula<GradOf<Gelu>>(device, y, inputs);
    case Activation::gelu_tanh: return run_formula<GradOf<GeluTanh>>(device, y, inputs);
    case Activation::none: fail("internal error: no activation");
  }
}

// On a GPU f16 and bf16 products have an epilogue. Elsewhere a separate pass applies the activation, to what is still
// in cache if anything is.
void kernels::gemm_act(Device device, const View& y, const View& before, const View& a, const View& b, const View& bias,
                       Activation activation, const KeptWeight& kept) {
  if (y.numel() == 0) return;
  const CountedFlops counted(product_flops(y, a));
  if (!device.is_cpu() && is_half(y.dtype) && a.size(1) > 0)
    return cuda_backend::prepare(&cuda_backend::gemm_act, device)(y, before, a, b, bias, activation);
  const View& product = before ? before : y;
  gemm(device, product, a, b, bias, kept);
  activate(device, y, product, activation);
}

void kernels::gemm_act_backward(Device device, const View& y, const View& saved, const View& a, const View& b,
                                Activation activation) {
  if (y.numel() == 0) return;
  const CountedFlops counted(product_flops(y, a));
  if (!device.is_cpu() && is_half(y.dtype) && a.size(1) > 0)
    return cuda_backend::prepare(&cuda_backend::gemm_act_backward, device)(y, saved, a, b, activation);
  gemm(device, y, a, b, {});
  activate_backward(device, y, y, saved, activation);
}

}  // namespace mantissa
