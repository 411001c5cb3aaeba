// The kernel behind all reductions: y[o] = fold over the reduced elements of a source, for any strides. If the
// innermost dimension is reduced, some lanes of a warp or a block fold one result; if it is kept, neighbouring results
// are folded together: both give coalesced reads. Long reductions are split into segments, depending on the shape only,
// and a second launch folds the segments' results.
#pragma once

#include "core/kernel.h"
#include "cuda/elementwise.cuh"
#include "cuda/reduce.cuh"

namespace mantissa::cuda_backend {

// Memory offset of element i of some dimensions. Dimension 0 is the innermost one.
struct Offsets {
  int rank = 0;
  bool small = true;  // indices fit into 31 bits
  Divider dividers[Dims::max_rank];
  std::int64_t sizes[Dims::max_rank] = {}, strides[Dims::max_rank] = {};

  Offsets() = default;
  Offsets(const Dims& s, const Dims& st) : rank(s.rank()), small(numel_of(s) < (std::int64_t{1} << 31)) {
    for (int d = 0; d < rank; ++d) {
      sizes[d] = s[rank - 1 - d];
      strides[d] = st[rank - 1 - d];
      if (small) dividers[d] = Divider(sizes[d]);
    }
  }
  __device__ std::int64_t operator()(std::int64_t i) const {
    if (rank == 1) return i * strides[0];
    std::int64_t at = 0;
    if (small) {
      unsigned rest = static_cast<unsigned>(i);
      for (int d = 0; d < rank; ++d) {
        const unsigned next = d + 1 < rank ? dividers[d].divide(rest) : 0;
        at += (rest - next * static_cast<unsigned>(sizes[d])) * strides[d];
        rest = next;
      }
    } else {
      for (int d = 0; d < rank; ++d) {
        at += i % sizes[d] * strides[d];
        i /= sizes[d];
      }
    }
    return at;
  }
};

// x's dimensions split into kept and reduced; `y` has x's rank and size 1 where x is reduced. Results are numbered
// row-major. The reduced dimensions are traversed in x's memory order, if that keeps the order of the kept ones: so a
// sum over all but the channels reads channels-last images contiguously.
struct ReducePlan {
  Dims kept, kept_strides, reduced, reduced_strides;
  bool inner_reduced = true;
  std::int64_t outputs = 1, count = 1;

  ReducePlan(const Dims& y, const View& x) : outputs(numel_of(y)) {
    Dims mark = contiguous_strides(y);  // 0 marks reduced dimensions
    for (int d = 0; d < x.dim(); ++d) {
      if (y[d] != x.sizes[d]) mark[d] = 0, count *= x.sizes[d];
    }
    if (outputs == 0 || count == 0) return;
    const Dims* strides[] = {&x.strides, &mark};
    Loop loop = collapse_in_memory_order(x.sizes, strides, 2);
    std::int64_t last = numel_of(y) + 1;
    bool in_order = true;
    for (std::int64_t step : loop.strides[1]) {
      if (step == 0) continue;
      in_order = in_order && step < last;
      last = step;
    }
    if (!in_order) loop = collapse(x.sizes, strides, 2);
    for (int d = 0; d < loop.sizes.rank(); ++d) {
      inner_reduced = loop.strides[1][d] == 0;
      (inner_reduced ? reduced : kept).push_back(loop.sizes[d]);
      (inner_reduced ? reduced_strides : kept_strides).push_back(loop.strides[0][d]);
    }
  }
  bool by_columns() const { return count > 0 && !inner_reduced && kept.back() >= 16; }
};

// --- sources: give the elements to fold, from their memory offset and the result's index ---
template <class C> struct Elements {
  const void* data;
  Dtype dtype;
  __device__ C operator()(std::int64_t at, std::int64_t) const { return load_element<C>(data, dtype, at); }
  __device__ void load(C (&to)[pack], std::int64_t at, std::int64_t) const { load_pack(to, data, dtype, at); }
};
// f(element), for folds that need no other number.
template <class C, class F> struct MappedElements {
  const void* data;
  Dtype dtype;
  __device__ C operator()(std::int64_t at, std::int64_t) const { return F()(load_element<C>(data, dtype, at)); }
  __device__ void load(C (&to)[pack], std::int64_t at, std::int64_t) const {
    load_pack(to, data, dtype, at);
#pragma unroll
    for (int k = 0; k < pack; ++k) to[k] = F()(to[k]);
  }
};
template <class C> struct SquaredDeviations {  // from a mean per result
  const void* data;
  Dtype dtype;
  const C* mean;
  __device__ C operator()(std::int64_t at, std::int64_t o) const {
    const C d = load_element<C>(data, dtype, at) - mean[o];
    return d * d;
  }
  __device__ void load(C (&to)[pack], std::int64_t at, std::int64_t o) const {
    load_pack(to, data, dtype, at);
#pragma unroll
    for (int k = 0; k < pack; ++k) to[k] = (to[k] - mean[o]) * (to[k] - mean[o]);
  }
};

// Stores results: divided, or of a sum of squares the root, and converted to the result's dtype.
struct Finish {
  void* data;
  Dtype dtype;
  double divisor = 1;
  bool root = false;
  template <class C> __device__ void operator()(std::int64_t i, C v) const {
    if constexpr (std::is_floating_point_v<C>) {
      if (root) v = sqrt(v);
    }
    store_element(data, dtype, i, divisor == 1 ? v : static_cast<C>(v / static_cast<C>(divisor)));
  }
};

// Parameters common to all threads of a launch.
struct ReduceJob {
  Offsets kept, reduced;
  std::int64_t outputs = 1, count = 1, segment = 1;
  int segments = 1;
  bool packs = false;  // the reduced elements of a result are contiguous and pack-aligned
};

// Thread `me` of `threads` folds elements [begin, end) of result o.
template <class Fold, class C, class Source>
__device__ C fold_elements(const ReduceJob& job, const Source& source, std::int64_t o, std::int64_t begin,
                           std::int64_t end, int me, int threads) {
  const std::int64_t base = job.kept(o);
  C v = Fold::template identity<C>();
  if (!job.packs) {
    for (std::int64_t i = begin + me; i < end; i += threads) v = Fold{}(v, source(base + job.reduced(i), o));
    return v;
  }
  std::int64_t i = begin + std::int64_t{me} * pack;
  for (; i + pack <= end; i += std::int64_t{threads} * pack) {
    C e[pack];
    source.load(e, base + i, o);
#pragma unroll
    for (int distance = pack / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int k = 0; k < distance; ++k) e[k] = Fold{}(e[k], e[k + distance]);
    }
    v = Fold{}(v, e[0]);
  }
  for (; i < end; ++i) v = Fold{}(v, source(base + i, o));
  return v;
}

// One result per blockDim.x lanes of a warp.
template <class Fold, class C, class Source>
__global__ void reduce_lanes_kernel(ReduceJob job, Source source, Finish finish) {
  wait_for_previous_kernel();
  const int lane = static_cast<int>(threadIdx.x), lanes = static_cast<int>(blockDim.x);
  const std::int64_t o = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  C v = Fold::template identity<C>();
  if (o < job.outputs) v = fold_elements<Fold, C>(job, source, o, 0, job.count, lane, lanes);
  v = fold_lanes<Fold>(v, lanes);
  if (lane == 0 && o < job.outputs) finish(o, v);
}

// One segment of a result per block; blockIdx.y is the segment.
template <class Fold, class C, class Source>
__global__ void reduce_block_kernel(ReduceJob job, Source source, Finish finish) {
  wait_for_previous_kernel();
  __shared__ C scratch[32];
  const std::int64_t o = blockIdx.x, begin = blockIdx.y * job.segment,
                     end = begin + job.segment < job.count ? begin + job.segment : job.count;
  const C v = fold_block<Fold>(
      fold_elements<Fold, C>(job, source, o, begin, end, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)),
      scratch);
  if (threadIdx.x == 0) finish(o * job.segments + blockIdx.y, v);
}

// Neighbouring results per block of (columns, rows), rows being a power of two; blockIdx.y is the segment.
inline constexpr int column_threads = 512;
template <class Fold, class C, class Source>
__global__ void reduce_columns_kernel(ReduceJob job, Source source, Finish finish) {
  wait_for_previous_kernel();
  __shared__ C scratch[column_threads];
  const std::int64_t o = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t begin = blockIdx.y * job.segment,
                     end = begin + job.segment < job.count ? begin + job.segment : job.count;
  C v = Fold::template identity<C>();
  if (o < job.outputs) {
    const std::int64_t base = job.kept(o);
    for (std::int64_t i = begin + threadIdx.y; i < end; i += blockDim.y)
      v = Fold{}(v, source(base + job.reduced(i), o));
  }
  C* mine = scratch + threadIdx.y * blockDim.x + threadIdx.x;
  *mine = v;
  for (unsigned distance = blockDim.y / 2; distance > 0; distance /= 2) {
    __syncthreads();
    if (threadIdx.y < distance) *mine = v = Fold{}(v, mine[distance * blockDim.x]);
  }
  if (threadIdx.y == 0 && o < job.outputs) finish(o * job.segments + blockIdx.y, v);
}

// --- on the host ---
inline void cut_into_segments(ReduceJob& job, std::int64_t blocks, std::int64_t least) {
  constexpr std::int64_t wanted_blocks = 1024;  // fills any GPU; independent of the actual one for reproducibility
  const std::int64_t wanted = std::max<std::int64_t>(1, wanted_blocks / std::max<std::int64_t>(1, blocks));
  const std::int64_t segments = std::clamp<std::int64_t>(job.count / least, 1, wanted);
  job.segment = ((job.count + segments - 1) / segments + pack - 1) / pack * pack;
  job.segments = static_cast<int>((job.count + job.segment - 1) / job.segment);
}

// Every row of a block has a few elements to fold.
inline dim3 column_block(std::int64_t count) {
  unsigned rows = 16;
  while (rows > 1 && rows * 4 > count) rows /= 2;
  return dim3(column_threads / rows, rows);
}
// Enough lanes for the results, if each of them takes `loads` loads.
inline Grid lane_grid(std::int64_t outputs, std::int64_t loads) {
  unsigned lanes = 1;
  while (lanes < 32 && lanes < loads) lanes *= 2;
  const unsigned results = 256 / lanes;
  return {dim3(static_cast<unsigned>((outputs + results - 1) / results)), dim3(lanes, results)};
}

inline ReduceJob job_of(const ReducePlan& plan) {
  ReduceJob job;
  job.kept = Offsets(plan.kept, plan.kept_strides);
  job.reduced = Offsets(plan.reduced, plan.reduced_strides);
  job.outputs = plan.outputs;
  job.count = job.segment = plan.count;
  return job;
}
// By rows, in packs if x can be read so.
inline ReduceJob row_job_of(const ReducePlan& plan, const View& x, Dtype compute) {
  ReduceJob job = job_of(plan);
  job.packs = plan.reduced.rank() == 1 && plan.reduced_strides[0] == 1 && has_packs(compute, x.dtype) &&
              reinterpret_cast<std::uintptr_t>(x.data) % std::min<std::size_t>(16, pack * size_of(x.dtype)) == 0;
  for (int d = 0; d < plan.kept.rank(); ++d) job.packs = job.packs && plan.kept_strides[d] % pack == 0;
  return job;
}
template <class Fold, class C, class Source>
void reduce_by_lanes(const char* name, const ReduceJob& job, const Source& source, const Finish& finish) {
  const std::int64_t loads = job.packs ? (job.count + pack - 1) / pack : job.count;
  launch(name, &reduce_lanes_kernel<Fold, C, Source>, lane_grid(job.outputs, loads), job, source, finish);
}

template <class Fold, class C, class Source>
void run_reduction(const char* name, const ReducePlan& plan, const View& x, const Source& source,
                   const Finish& finish) {
  if (plan.outputs == 0) return;
  const bool columns = plan.by_columns();
  ReduceJob job = columns ? job_of(plan) : row_job_of(plan, x, dtype_of<C>);
  if (!columns && plan.count <= 1024) return reduce_by_lanes<Fold, C>(name, job, source, finish);
  const dim3 block = columns ? column_block(plan.count) : dim3(512);
  const std::int64_t blocks = columns ? (plan.outputs + block.x - 1) / block.x : plan.outputs;
  check(blocks <= 0x7fffffff, "internal error: too many results for one launch");
  cut_into_segments(job, blocks, columns ? 256 : 16384);
  Tensor partial;
  Finish to = finish;
  if (job.segments > 1) {
    partial = Tensor::allocate({plan.outputs, job.segments}, dtype_of<C>, x.device);
    to = {partial.raw_data(), dtype_of<C>};
  }
  const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(job.segments)), block};
  if (columns) launch(name, &reduce_columns_kernel<Fold, C, Source>, grid, job, source, to);
  else launch(name, &reduce_block_kernel<Fold, C, Source>, grid, job, source, to);
  if (job.segments > 1) {  // at most 1024
    const View parts = partial.view();
    const ReducePlan last({plan.outputs, 1}, parts);
    reduce_by_lanes<Fold, C>(name, row_job_of(last, parts, dtype_of<C>), Elements<C>{parts.data, parts.dtype}, finish);
  }
}

}  // namespace mantissa::cuda_backend
