// Extremes and products over any set of dimensions, and the index of an extreme along one dimension. Mirrors
// core/cpu/reduce.cpp and reduce_prod.cpp.
#include "cuda/reduction.cuh"

namespace mantissa {
MANTISSA_KERNEL(reduce_max, const View& y, const View& x)
MANTISSA_KERNEL(reduce_min, const View& y, const View& x)
MANTISSA_KERNEL(reduce_prod, const View& y, const View& x)
MANTISSA_KERNEL(reduce_arg, const View& values, const View& indices, const View& x, bool largest)
}

namespace mantissa::cuda_backend {
namespace {

template <class Fold> void run_fold(const char* name, const View& y, const View& x) {
  visit_compute_any(x.dtype, [&]<class C>() {
    run_reduction<Fold, C>(name, ReducePlan(y.sizes, x), x, Elements<C>{x.data, x.dtype}, {y.data, y.dtype});
  });
}

// Whether a at position i comes before b at position j: NaN first, then the extreme, then the position.
template <class C> __device__ bool precedes(C a, std::int64_t i, C b, std::int64_t j, bool largest) {
  const bool a_nan = !(a == a), b_nan = !(b == b);
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a != b) return largest ? a > b : a < b;
  return i < j;
}

// One result per warp; blocks of (32, warps).
template <class C>
__global__ void arg_kernel(ReduceJob job, const void* x, Dtype dtype, void* values, Dtype values_dtype,
                           std::int64_t* indices, bool largest) {
  const std::int64_t o = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (o >= job.outputs) return;  // applies to the whole warp
  const std::int64_t base = job.kept(o);
  std::int64_t place = threadIdx.x < job.count ? threadIdx.x : 0;
  C best = load_element<C>(x, dtype, base + job.reduced(place));
  for (std::int64_t i = place + 32; i < job.count; i += 32) {
    const C v = load_element<C>(x, dtype, base + job.reduced(i));
    if (precedes(v, i, best, place, largest)) best = v, place = i;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    const C v = __shfl_down_sync(all_lanes, best, distance);
    const std::int64_t i = __shfl_down_sync(all_lanes, place, distance);
    if (precedes(v, i, best, place, largest)) best = v, place = i;
  }
  if (threadIdx.x != 0) return;
  indices[o] = place;
  if (values) store_element(values, values_dtype, o, best);
}

}  // namespace

void reduce_max(const View& y, const View& x) { run_fold<Max>("reduce_max", y, x); }
void reduce_min(const View& y, const View& x) { run_fold<Min>("reduce_min", y, x); }
void reduce_prod(const View& y, const View& x) { run_fold<Prod>("reduce_prod", y, x); }

// Along the dimension in which `indices` has size 1; `values` is optional.
void reduce_arg(const View& values, const View& indices, const View& x, bool largest) {
  const ReducePlan plan(indices.sizes, x);
  if (plan.outputs == 0) return;
  ReduceJob job;
  job.kept = Offsets(plan.kept, plan.kept_strides);
  job.reduced = Offsets(plan.reduced, plan.reduced_strides);
  job.outputs = plan.outputs;
  job.count = plan.count;
  constexpr unsigned warps = 8;
  const Grid grid{dim3(static_cast<unsigned>((plan.outputs + warps - 1) / warps)), dim3(32, warps)};
  visit_compute_any(x.dtype, [&]<class C>() {
    launch("reduce_arg", &arg_kernel<C>, grid, job, x.data, x.dtype, values.data, values.dtype,
           indices.as<std::int64_t>(), largest);
  });
}

}  // namespace mantissa::cuda_backend
