// Sums over any set of dimensions. Results are contiguous; `y` has x's rank, with size 1 where x is
// reduced. Implemented by core/cpu/reduce.h.
#include "core/cpu/reduce.h"

#include <array>

#include "core/cpu/channels.h"
#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(reduce_sum, const View& y, const View& x, double divisor)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class C> void run(const View& y, const View& x, double divisor) {
  DenseResult<C> out(y);
  const ReducePlan plan(y.sizes, x);
  reduce<Sum>(plan, Elements<C>{x}, out.data());
  if (divisor != 1) {
    for (std::int64_t i = 0; i < plan.outputs; ++i) out.data()[i] = out.data()[i] / static_cast<C>(divisor);
  }
  out.finish();
}
// Sums over all pixels of channels-last images, one per channel: the gradient of a convolution's bias.
bool sums_channels(const View& y, const View& x) {
  return is_floating(x.dtype) && x.layout() == Layout::channels_last && x.numel() > 0 &&
         y.sizes == Dims{1, x.sizes[1], 1, 1};
}
void sum_channels(const View& y, const View& x, double divisor) {
  const std::int64_t channels = x.sizes[1];
  visit_floating(x.dtype, [&]<class T> {
    const T* p = x.as<const T>();
    std::vector<double> sums = sum_over_pixels<1, Compute<T>>(
        ChannelRows(x.numel() / channels, channels),
        [=](const auto& lanes, std::int64_t i, std::int64_t) { return std::array{lanes.load(p + i)}; });
    for (double& s : sums) s /= divisor;
    store_run(y.data, y.dtype, 0, y.strides[1], sums.data(), channels);
  });
}

}  // namespace

// y = sum / divisor; an empty sum is 0.
void reduce_sum(const View& y, const View& x, double divisor) {
  if (sums_channels(y, x)) return sum_channels(y, x, divisor);
  switch (compute_dtype(x.dtype)) {
    case Dtype::f64: return run<double>(y, x, divisor);
    case Dtype::f32: return run<float>(y, x, divisor);
    default: return run<std::int64_t>(y, x, divisor);
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
