// Every elementwise formula that computes in integers, launched on the device for every integer dtype: as packs and as
// single elements. Their arithmetic is exact, so that the CPU gives the same bits. (The registry's samples of most
// operators are floating.)
#include <vector>

#include "core/accelerator.h"
#include "core/kernel.h"
#include "core/ops.h"
#include "core/pointwise.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace mantissa {
MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y,
                std::span<const View* const> x)
}

namespace {

// Positive and negative, without zero: some formulas divide by it.
Tensor operand(const Dims& sizes, Dtype dtype, std::uint64_t stream) {
  const Tensor drawn = cast(floor(random_tensor(sizes, stream, -9, 9)), i64);
  const Tensor x = where(drawn == 0, Tensor(5), drawn);
  return cast(dtype == u8 ? abs(x) : x, dtype);
}

template <class F> Tensor result(const F& formula, const Tensor& y, const std::vector<Tensor>& x) {
  std::vector<View> views;
  std::vector<const View*> pointers;
  for (const Tensor& t : x) views.push_back(t.view());
  for (const View& v : views) pointers.push_back(&v);
  kernels::pointwise(y.device(), pointwise::opcode<F>, static_cast<const void*>(&formula), i64, y.view(), pointers);
  return y.to(cpu);
}

template <class F> void check_formula(std::uint64_t operands) {
  if constexpr (F::integers) {
    F formula;
    if constexpr (requires { formula.low; }) formula.low = -3, formula.high = 5;
    if constexpr (requires { formula.value; }) formula.value = 3;
    for (const Dtype dtype : {i64, i32, u8}) {
      for (const bool transposed : {false, true}) {  // then nothing is in order: single elements
        INFO(F::name << " of " << name_of(dtype) << (transposed ? ", transposed" : ""));
        const Dims sizes = transposed ? Dims{37, 61} : Dims{2061};
        std::vector<Tensor> host, device;
        for (std::uint64_t i = 0; i < operands; ++i) {
          const bool turned = transposed && i == 0;
          const Tensor x = operand(turned ? Dims{61, 37} : sizes, dtype, i), on_device = x.to(cuda);
          host.push_back(turned ? x.t() : x);
          device.push_back(turned ? on_device.t() : on_device);
        }
        const Dtype to = F::result == pointwise::Result::boolean ? boolean : dtype;
        const Tensor expected = result(formula, zeros(sizes, {.dtype = to}), host);
        CHECK(same_bits(result(formula, zeros(sizes, {.dtype = to, .device = cuda}), device), expected));
      }
    }
  }
}
template <class... F> void check_formulas(List<F...>, std::uint64_t operands) {
  (check_formula<F>(operands), ...);
}

}  // namespace

TEST_CASE("formulas of integers give the CPU's bits") {
  if (!cuda_is_available()) {
    WARN("no GPU: nothing was tested");
    return;
  }
  using namespace pointwise;
  check_formulas(UnaryFormulas{}, 1);
  check_formulas(StepFormulas{}, 1);
  check_formulas(BinaryFormulas{}, 2);
  check_formulas(TernaryFormulas{}, 3);
  // The others are derivatives, of floating formulas alone.
  static_assert(PointwiseFormulas::size ==
                2 * UnaryFormulas::size + StepFormulas::size + BinaryFormulas::size + TernaryFormulas::size);
}
