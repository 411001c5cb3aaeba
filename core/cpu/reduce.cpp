// Reduction kernels over any set of dimensions. Results are contiguous; `y` comes with x's rank and
// size 1 where x is reduced. The walk over memory is core/cpu/reduce.h.
#include "core/cpu/reduce.h"

#include <array>

#include "core/cpu/channels.h"
#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(reduce_sum, const View& y, const View& x, double divisor)
MANTISSA_KERNEL(reduce_max, const View& y, const View& x)
MANTISSA_KERNEL(reduce_min, const View& y, const View& x)
MANTISSA_KERNEL(reduce_var, const View& y, const View& x, double divisor)
MANTISSA_KERNEL(reduce_arg, const View& values, const View& indices, const View& x, bool largest)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class C, class Fold> void run(const View& y, const View& x, double divisor = 1) {
  DenseResult<C> out(y);
  const ReducePlan plan(y.sizes, x);
  reduce<Fold>(plan, Elements<C>{x}, out.data());
  if (divisor != 1) {
    for (std::int64_t i = 0; i < plan.outputs; ++i) out.data()[i] = out.data()[i] / static_cast<C>(divisor);
  }
  out.finish();
}
template <class Fold> void run_in_compute_type(const View& y, const View& x, double divisor = 1) {
  switch (compute_dtype(x.dtype)) {
    case Dtype::f64: return run<double, Fold>(y, x, divisor);
    case Dtype::f32: return run<float, Fold>(y, x, divisor);
    default: return run<std::int64_t, Fold>(y, x, divisor);
  }
}

// Sums over all pixels of channels-last images, one per channel: the gradient of a convolution's bias.
bool sums_channels(const View& y, const View& x) {
  return is_floating(x.dtype) && x.layout() == Layout::channels_last && x.numel() > 0 && y.sizes == Dims{1, x.sizes[1], 1, 1};
}
void sum_channels(const View& y, const View& x, double divisor) {
  const std::int64_t channels = x.sizes[1];
  visit_floating(x.dtype, [&]<class T> {
    const T* p = x.as<const T>();
    std::vector<double> sums = sum_over_pixels<1, Compute<T>>(ChannelRows(x.numel() / channels, channels), [=](const auto& lanes, std::int64_t i, std::int64_t) {
      return std::array{lanes.load(p + i)};
    });
    for (double& s : sums) s /= divisor;
    store_run(y.data, y.dtype, 0, y.strides[1], sums.data(), channels);
  });
}

// One value and the index of its first occurrence. NaN is larger and smaller than everything.
template <class C, class Fold> void arg(const View& values, const View& indices, const View& x) {
  const ReducePlan plan(indices.sizes, x);
  std::unique_ptr<C[]> best(new C[static_cast<std::size_t>(plan.outputs)]);
  reduce<Fold>(plan, Elements<C>{x}, best.get());
  const std::int64_t n = plan.count, stride = plan.reduced_strides.empty() ? 0 : plan.reduced_strides.back();
  std::int64_t* index = indices.as<std::int64_t>();
  parallel_for(plan.outputs, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, n)), [&](std::int64_t first, std::int64_t last) {
    C buffer[64];
    for (std::int64_t o = first; o < last; ++o) {
      const Walker at(plan.kept, plan.kept_strides, o);
      const C wanted = best[o];
      index[o] = -1;
      for (std::int64_t i = 0; i < n && index[o] < 0; i += 64) {
        const std::int64_t m = std::min<std::int64_t>(64, n - i);
        load_run(buffer, x.data, x.dtype, at.offset() + i * stride, stride, m);
        for (std::int64_t j = 0; j < m; ++j) {
          if (buffer[j] == wanted || (wanted != wanted && buffer[j] != buffer[j])) {
            index[o] = i + j;
            break;
          }
        }
      }
    }
  });
  if (values) store_run(values.data, values.dtype, 0, 1, best.get(), plan.outputs);
}

}  // namespace

// y = sum / divisor; an empty sum is 0.
void reduce_sum(const View& y, const View& x, double divisor) {
  if (sums_channels(y, x)) sum_channels(y, x, divisor);
  else run_in_compute_type<Sum>(y, x, divisor);
}
void reduce_max(const View& y, const View& x) { run_in_compute_type<Max>(y, x); }
void reduce_min(const View& y, const View& x) { run_in_compute_type<Min>(y, x); }

// y = sum((x - mean)^2) / divisor, in two passes.
void reduce_var(const View& y, const View& x, double divisor) {
  visit_compute(x.dtype, [&]<class C> {
    DenseResult<C> out(y);
    const ReducePlan plan(y.sizes, x);
    std::unique_ptr<C[]> mean(new C[static_cast<std::size_t>(plan.outputs)]);
    reduce<Sum>(plan, Elements<C>{x}, mean.get());
    for (std::int64_t i = 0; i < plan.outputs; ++i) mean[i] = mean[i] / static_cast<C>(plan.count);
    reduce<Sum>(plan, SquaredDeviations<C>{x}, out.data(), static_cast<const C*>(mean.get()));
    for (std::int64_t i = 0; i < plan.outputs; ++i) out.data()[i] = out.data()[i] / static_cast<C>(divisor);
    out.finish();
  });
}

// Along the one dimension in which `indices` has size 1; `values` may be absent.
void reduce_arg(const View& values, const View& indices, const View& x, bool largest) {
  const Dtype compute = compute_dtype(x.dtype);
  auto with = [&]<class C> {
    if (largest) arg<C, Max>(values, indices, x);
    else arg<C, Min>(values, indices, x);
  };
  if (compute == f64) with.template operator()<double>();
  else if (compute == f32) with.template operator()<float>();
  else with.template operator()<std::int64_t>();
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
