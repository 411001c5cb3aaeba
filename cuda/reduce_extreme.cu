// Extremes, products and truth over any set of dimensions, and the index of an extreme along one dimension.
// Mirrors core/cpu/reduce.cpp, reduce_prod.cpp and reduce_arg.cpp.
#include "cuda/reduction.cuh"

namespace mantissa {
MANTISSA_KERNEL(reduce_max, const View& y, const View& x)
MANTISSA_KERNEL(reduce_min, const View& y, const View& x)
MANTISSA_KERNEL(reduce_prod, const View& y, const View& x)
MANTISSA_KERNEL(reduce_truth, const View& y, const View& x, bool all)
MANTISSA_KERNEL(reduce_arg, const View& values, const View& indices, const View& x, bool largest)
}

namespace mantissa::cuda_backend {
namespace {

template <class Fold> void run_fold(const char* name, const View& y, const View& x) {
  visit_compute_any(x.dtype, [&]<class C>() {
    run_reduction<Fold, C>(name, ReducePlan(y.sizes, x), x, Elements<C>{x.data, x.dtype}, {y.data, y.dtype});
  });
}

// Truth is the largest or smallest of numbers that are 0 or 1.
struct IsTrue {
  template <class C> __device__ C operator()(C x) const { return x != C(0) ? C(1) : C(0); }
};
struct Any {
  template <class C> __device__ static C identity() { return C(0); }
  template <class C> __device__ C operator()(C a, C b) const { return b > a ? b : a; }
};
struct All {
  template <class C> __device__ static C identity() { return C(1); }
  template <class C> __device__ C operator()(C a, C b) const { return b < a ? b : a; }
};
template <class Fold> void reduce_to_truth(const View& y, const View& x) {
  const auto run = [&]<class C>(C) {
    run_reduction<Fold, C>("reduce_truth", ReducePlan(y.sizes, x), x, MappedElements<C, IsTrue>{x.data, x.dtype},
                           {y.data, y.dtype});
  };
  if (x.dtype == f64) run(double());
  else if (x.dtype == i64 || x.dtype == i32) run(std::int64_t());
  else run(float());  // also bytes
}

// Whether a at position i comes before b at position j: NaN first, then the extreme, then the position.
template <class C> __device__ bool precedes(C a, std::int64_t i, C b, std::int64_t j, bool largest) {
  const bool a_nan = !(a == a), b_nan = !(b == b);
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a != b) return largest ? a > b : a < b;
  return i < j;
}

template <class C> struct Best {
  C value;
  std::int64_t place;
  __device__ void meet(const Best& other, bool largest) {
    if (precedes(other.value, other.place, value, place, largest)) *this = other;
  }
};
// Of a warp; lane 0 gets it.
template <class C> __device__ Best<C> best_of_warp(Best<C> best, bool largest) {
  for (int distance = 16; distance > 0; distance /= 2) {
    best.meet({__shfl_down_sync(all_lanes, best.value, distance), __shfl_down_sync(all_lanes, best.place, distance)},
              largest);
  }
  return best;
}

// One result per warp in blocks of (32, warps), or one segment of a result per block of (threads, 1); blockIdx.y is the
// segment. from: x holds what was found in segments, and `from` where.
template <class C>
__global__ void arg_kernel(ReduceJob job, const void* x, Dtype dtype, const std::int64_t* from, void* values,
                           Dtype values_dtype, std::int64_t* indices, bool largest) {
  const std::int64_t o = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (o >= job.outputs) return;  // applies to whole warps, and to none of a block with one result
  const std::int64_t base = job.kept(o), begin = blockIdx.y * job.segment,
                     end = begin + job.segment < job.count ? begin + job.segment : job.count;
  const std::int64_t first = begin + threadIdx.x < end ? begin + threadIdx.x : begin;
  Best<C> best{load_element<C>(x, dtype, base + job.reduced(first)), first};
#pragma unroll 4
  for (std::int64_t i = first + blockDim.x; i < end; i += blockDim.x)
    best.meet({load_element<C>(x, dtype, base + job.reduced(i)), i}, largest);
  best = best_of_warp(best, largest);
  if (blockDim.y == 1) {
    __shared__ C value[32];
    __shared__ std::int64_t place[32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) value[warp] = best.value, place[warp] = best.place;
    __syncthreads();
    if (warp > 0) return;
    const unsigned mine = lane < blockDim.x / 32 ? lane : 0;
    best = best_of_warp<C>({value[mine], place[mine]}, largest);
  }
  if (threadIdx.x != 0) return;
  const std::int64_t to = o * job.segments + blockIdx.y;
  indices[to] = from ? from[o * job.count + best.place] : best.place;
  if (values) store_element(values, values_dtype, to, best.value);
}

template <class C>
void run_arg(const ReducePlan& plan, const View& x, const std::int64_t* from, const View& values, const View& indices,
             bool largest) {
  ReduceJob job;
  job.kept = Offsets(plan.kept, plan.kept_strides);
  job.reduced = Offsets(plan.reduced, plan.reduced_strides);
  job.outputs = plan.outputs;
  job.count = job.segment = plan.count;
  constexpr std::int64_t warps = 8;
  Grid grid{dim3(static_cast<unsigned>((plan.outputs + warps - 1) / warps)), dim3(32, warps)};
  Tensor best, places;
  View to_values = values, to_indices = indices;
  if (plan.count > 1024 && plan.outputs < 4096) {  // more results keep a GPU busy with a warp each
    cut_into_segments(job, plan.outputs, 16384);
    grid = {dim3(static_cast<unsigned>(plan.outputs), static_cast<unsigned>(job.segments)), dim3(512)};
    if (job.segments > 1) {
      best = Tensor::allocate({plan.outputs, job.segments}, dtype_of<C>, x.device);
      places = Tensor::allocate({plan.outputs, job.segments}, i64, x.device);
      to_values = best.view();
      to_indices = places.view();
    }
  }
  launch("reduce_arg", &arg_kernel<C>, grid, job, x.data, x.dtype, from, to_values.data, to_values.dtype,
         to_indices.as<std::int64_t>(), largest);
  if (job.segments > 1) {
    run_arg<C>(ReducePlan({plan.outputs, 1}, to_values), to_values, to_indices.as<std::int64_t>(), values, indices,
               largest);
  }
}

}  // namespace

void reduce_max(const View& y, const View& x) { run_fold<Max>("reduce_max", y, x); }
void reduce_min(const View& y, const View& x) { run_fold<Min>("reduce_min", y, x); }
void reduce_prod(const View& y, const View& x) { run_fold<Prod>("reduce_prod", y, x); }
void reduce_truth(const View& y, const View& x, bool all) {
  if (all) reduce_to_truth<All>(y, x);
  else reduce_to_truth<Any>(y, x);
}

// Along the dimension in which `indices` has size 1; `values` is optional.
void reduce_arg(const View& values, const View& indices, const View& x, bool largest) {
  const ReducePlan plan(indices.sizes, x);
  if (plan.outputs == 0) return;
  visit_compute_any(x.dtype, [&]<class C>() { run_arg<C>(plan, x, nullptr, values, indices, largest); });
}

}  // namespace mantissa::cuda_backend
