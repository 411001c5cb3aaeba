// Products over any set of dimensions; see core/cpu/reduce.cpp.
#include "core/cpu/reduce.h"

#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(reduce_prod, const View& y, const View& x)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

struct Prod {
  template <class T> static T identity() { return T(1); }
  template <class T> T operator()(const T& a, const T& b) const { return a * b; }
};
template <class C> void run(const View& y, const View& x) {
  DenseResult<C> out(y);
  reduce<Prod>(ReducePlan(y.sizes, x), Elements<C>{x}, out.data());
  out.finish();
}

}  // namespace

// An empty product is 1.
void reduce_prod(const View& y, const View& x) {
  switch (compute_dtype(x.dtype)) {
    case Dtype::f64: return run<double>(y, x);
    case Dtype::f32: return run<float>(y, x);
    default: return run<std::int64_t>(y, x);
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
