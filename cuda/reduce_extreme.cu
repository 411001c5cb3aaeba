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
// Of neighbouring groups of lanes; the first of each gets it.
template <class C> __device__ Best<C> best_of_lanes(Best<C> best, int lanes, bool largest) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    best.meet({__shfl_down_sync(all_lanes, best.value, distance), __shfl_down_sync(all_lanes, best.place, distance)},
              largest);
  }
  return best;
}

// x, or what was found in its segments, and `from` where.
struct ArgSource {
  const void* data;
  Dtype dtype;
  const std::int64_t* from;
};
struct ArgResults {
  void* values;
  Dtype dtype;
  std::int64_t* indices;
  template <class C>
  __device__ void store(const ReduceJob& job, const ArgSource& x, std::int64_t o, const Best<C>& best) const {
    const std::int64_t to = o * job.segments + blockIdx.y;
    indices[to] = x.from ? x.from[o * job.count + best.place] : best.place;
    if (values) store_element(values, dtype, to, best.value);
  }
};

// Of the elements of a segment of result o, blockIdx.y, the best that is `me`'s: every step-th.
template <class C>
__device__ Best<C> best_element(const ReduceJob& job, const ArgSource& x, std::int64_t o, unsigned me, unsigned step,
                                bool largest) {
  const std::int64_t base = job.kept(o), begin = blockIdx.y * job.segment,
                     end = begin + job.segment < job.count ? begin + job.segment : job.count;
  const std::int64_t first = begin + me < end ? begin + me : begin;
  Best<C> best{load_element<C>(x.data, x.dtype, base + job.reduced(first)), first};
#pragma unroll 4
  for (std::int64_t i = first + step; i < end; i += step)
    best.meet({load_element<C>(x.data, x.dtype, base + job.reduced(i)), i}, largest);
  return best;
}

// One result per blockDim.x lanes of a warp, or one segment of a result per block of (threads, 1), whose index is
// blockIdx.y.
template <class C> __global__ void arg_kernel(ReduceJob job, ArgSource x, ArgResults results, bool largest) {
  wait_for_previous_kernel();
  const bool by_block = blockDim.y == 1;
  const std::int64_t result = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y,
                     o = result < job.outputs ? result : job.outputs - 1;
  Best<C> best = best_element<C>(job, x, o, threadIdx.x, blockDim.x, largest);
  best = best_of_lanes(best, by_block ? 32 : static_cast<int>(blockDim.x), largest);
  if (by_block) {
    __shared__ C value[32];
    __shared__ std::int64_t place[32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) value[warp] = best.value, place[warp] = best.place;
    __syncthreads();
    if (warp > 0) return;
    const unsigned mine = lane < blockDim.x / 32 ? lane : 0;
    best = best_of_lanes<C>({value[mine], place[mine]}, 32, largest);
  }
  if (threadIdx.x == 0 && result < job.outputs) results.store(job, x, o, best);
}

// Neighbouring results, as reduce_columns_kernel.
template <class C> __global__ void arg_columns_kernel(ReduceJob job, ArgSource x, ArgResults results, bool largest) {
  wait_for_previous_kernel();
  __shared__ C values[column_threads];
  __shared__ std::int64_t places[column_threads];
  const std::int64_t result = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                     o = result < job.outputs ? result : job.outputs - 1;
  Best<C> best = best_element<C>(job, x, o, threadIdx.y, blockDim.y, largest);
  const unsigned mine = threadIdx.y * blockDim.x + threadIdx.x;
  values[mine] = best.value, places[mine] = best.place;
  for (unsigned distance = blockDim.y / 2; distance > 0; distance /= 2) {
    __syncthreads();
    if (threadIdx.y >= distance) continue;
    const unsigned other = mine + distance * blockDim.x;
    best.meet({values[other], places[other]}, largest);
    values[mine] = best.value, places[mine] = best.place;
  }
  if (threadIdx.y == 0 && result < job.outputs) results.store(job, x, o, best);
}

template <class C>
void run_arg(const ReducePlan& plan, const ArgSource& x, const ArgResults& results, Device device, bool largest) {
  ReduceJob job = job_of(plan);
  const bool columns = plan.by_columns();
  if (!columns && (plan.count <= 1024 || plan.outputs >= 4096)) {  // so many results keep a GPU busy with a warp each
    return launch("reduce_arg", &arg_kernel<C>, lane_grid(plan.outputs, plan.count), job, x, results, largest);
  }
  const dim3 block = columns ? column_block(plan.count) : dim3(512);
  const std::int64_t blocks = columns ? (plan.outputs + block.x - 1) / block.x : plan.outputs;
  cut_into_segments(job, blocks, columns ? 256 : 16384);
  Tensor best, places;
  ArgResults to = results;
  if (job.segments > 1) {
    best = Tensor::allocate({plan.outputs, job.segments}, dtype_of<C>, device);
    places = Tensor::allocate({plan.outputs, job.segments}, i64, device);
    to = {best.raw_data(), dtype_of<C>, places.data<std::int64_t>()};
  }
  const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(job.segments)), block};
  launch("reduce_arg", columns ? &arg_columns_kernel<C> : &arg_kernel<C>, grid, job, x, to, largest);
  if (job.segments > 1) {
    const ReducePlan last({plan.outputs, 1}, best.view());
    run_arg<C>(last, {best.raw_data(), dtype_of<C>, places.data<std::int64_t>()}, results, device, largest);
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
  const ArgResults results{values.data, values.dtype, indices.as<std::int64_t>()};
  visit_compute_any(x.dtype, [&]<class C>() {
    run_arg<C>(plan, {x.data, x.dtype, nullptr}, results, x.device, largest);
  });
}

}  // namespace mantissa::cuda_backend
