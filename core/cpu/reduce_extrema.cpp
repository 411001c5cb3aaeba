// Maxima, minima and where they are; see core/cpu/reduce.cpp.
#include "core/cpu/reduce.h"

#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(reduce_max, const View& y, const View& x)
MANTISSA_KERNEL(reduce_min, const View& y, const View& x)
MANTISSA_KERNEL(reduce_arg, const View& values, const View& indices, const View& x, bool largest)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class Fold> void run(const View& y, const View& x) {
  const auto in = [&]<class C> {
    DenseResult<C> out(y);
    reduce<Fold>(ReducePlan(y.sizes, x), Elements<C>{x}, out.data());
    out.finish();
  };
  switch (compute_dtype(x.dtype)) {
    case Dtype::f64: return in.template operator()<double>();
    case Dtype::f32: return in.template operator()<float>();
    default: return in.template operator()<std::int64_t>();
  }
}

// One value and the index of its first occurrence. NaN is larger and smaller than everything.
template <class C, class Fold> void arg(const View& values, const View& indices, const View& x) {
  const ReducePlan plan(indices.sizes, x);
  std::unique_ptr<C[]> best(new C[static_cast<std::size_t>(plan.outputs)]);
  reduce<Fold>(plan, Elements<C>{x}, best.get());
  const std::int64_t n = plan.count, stride = plan.reduced_strides.empty() ? 0 : plan.reduced_strides.back();
  std::int64_t* index = indices.as<std::int64_t>();
  const std::int64_t grain = std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, n));
  parallel_for(plan.outputs, grain, [&](std::int64_t first, std::int64_t last) {
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

void reduce_max(const View& y, const View& x) { run<Max>(y, x); }
void reduce_min(const View& y, const View& x) { run<Min>(y, x); }

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
