// Sums, means, norms and variances over any set of dimensions; `y` has x's rank and size 1 in reduced dimensions.
// Mirrors core/cpu/reduce.cpp and reduce_norm.cpp; the kernels are in cuda/reduction.cuh.
#include "cuda/reduction.cuh"

namespace mantissa {
MANTISSA_KERNEL(reduce_sum, const View& y, const View& x, double divisor)
MANTISSA_KERNEL(reduce_norm, const View& y, const View& x)
MANTISSA_KERNEL(reduce_nansum, const View& y, const View& x)
MANTISSA_KERNEL(reduce_var, const View& y, const View& x, double divisor)
}

namespace mantissa::cuda_backend {
namespace {

struct Square {
  template <class C> __device__ C operator()(C x) const { return x * x; }
};
struct NanToZero {
  template <class C> __device__ C operator()(C x) const { return x == x ? x : C(0); }
};
template <class F> void reduce_mapped(const char* name, const View& y, const View& x, bool root) {
  visit_compute(x.dtype, [&]<class C>() {
    run_reduction<Sum, C>(name, ReducePlan(y.sizes, x), x, MappedElements<C, F>{x.data, x.dtype},
                          {y.data, y.dtype, 1, root});
  });
}

}  // namespace

void reduce_norm(const View& y, const View& x) { reduce_mapped<Square>("reduce_norm", y, x, true); }
void reduce_nansum(const View& y, const View& x) { reduce_mapped<NanToZero>("reduce_nansum", y, x, false); }

void reduce_sum(const View& y, const View& x, double divisor) {
  visit_compute_any(x.dtype, [&]<class C>() {
    run_reduction<Sum, C>("reduce_sum", ReducePlan(y.sizes, x), x, Elements<C>{x.data, x.dtype},
                          {y.data, y.dtype, divisor});
  });
}

// Two passes: the mean, then the squared deviations from it.
void reduce_var(const View& y, const View& x, double divisor) {
  visit_compute(x.dtype, [&]<class C>() {
    const ReducePlan plan(y.sizes, x);
    const Tensor mean = Tensor::allocate(y.sizes, dtype_of<C>, y.device);
    run_reduction<Sum, C>("reduce_var", plan, x, Elements<C>{x.data, x.dtype},
                          {mean.raw_data(), dtype_of<C>, static_cast<double>(plan.count)});
    const SquaredDeviations<C> deviations{x.data, x.dtype, static_cast<const C*>(mean.raw_data())};
    run_reduction<Sum, C>("reduce_var", plan, x, deviations, {y.data, y.dtype, divisor});
  });
}

}  // namespace mantissa::cuda_backend
