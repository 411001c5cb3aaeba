// How the products for Hopper store a tile: f16 and bf16 results pass through shared memory in boxes that TMA stores
// while the next tile is computed; f32 results, and those that are added to what is there, use ordinary stores.
#pragma once

#include "amp/kernels/gemm_sm90_tile.cuh"

namespace mantissa::tensor_core::sm90 {

// The sum of row `thread` of a warpgroup's 64, for its first 64 threads: of what its four warps have added up
// (add_rows).
__device__ inline float sum_of_row(const float (&two_rows)[2], float (&of_warps)[4][64], int consumer) {
  const int thread = threadIdx.x % 128, lane = thread % 32;
  if (thread == 0) hopper::copies_out_wait<0>();  // the space belongs to results that are being stored
  hopper::warpgroup_sync(1 + consumer);
  of_warps[thread / 32][2 * lane] = two_rows[0];
  of_warps[thread / 32][2 * lane + 1] = two_rows[1];
  hopper::warpgroup_sync(1 + consumer);
  float sum = 0;
  for (int w = 0; w < 4 && thread < 64; ++w) sum += of_warps[w][thread];
  hopper::warpgroup_sync(1 + consumer);
  return sum;
}
template <class T>
__device__ inline void store_row_sum(const Gemm& g, const Place& place, int consumer, float row_sum) {
  const int thread = threadIdx.x % 128;
  const std::int64_t row = place.row + 64 * consumer + thread;
  if (thread < 64 && row < g.m) finish_a_sum<T>(g, place.item * g.m + row, row_sum);
}

// Stores a warpgroup's 64 rows, 32 columns at a time, with the general epilogue.
template <class T, int tile_n>
__device__ __forceinline__ void store_slices(const Gemm& g, const Place& place, int consumer,
                                             const float (&d)[tile_n / 2], float* result) {
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
#pragma unroll 1
  for (int from = 0; from < tile_n; from += slice) {
#pragma unroll
    for (int s = 0; s < tile_n; s += slice) {
      if (s != from) continue;
#pragma unroll
      for (int j = 0; j < slice / 8; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float* v = d + (s / 8 + j) * 4 + 2 * half;
          float* to = result + (16 * warp + 8 * half + lane / 4) * slice_row + 8 * j + lane % 4 * 2;
          *reinterpret_cast<float2*>(to) = make_float2(v[0], v[1]);
        }
      }
    }
    hopper::warpgroup_sync(1 + consumer);
#pragma unroll 1
    for (int i = thread * 4; i < 64 * slice; i += 128 * 4) {
      const std::int64_t row = place.row + 64 * consumer + i / slice, column = place.column + from + i % slice;
      if (row >= g.m || column >= g.n) continue;
      const float4 v = *reinterpret_cast<const float4*>(result + i / slice * slice_row + i % slice);
      const float sums[4] = {v.x, v.y, v.z, v.w};
      finish_four<T>(g, place.item, row, column, sums);
    }
    hopper::warpgroup_sync(1 + consumer);
  }
}

// The tensor maps of a product: of its operands, and of results that are stored in boxes. before: before_activation.
struct Maps { CUtensorMap a{}, b{}, c{}, before{}; };

// Whether results can be stored in boxes: f16 or bf16 that are not added to what is there.
inline bool fits_boxes(const Gemm& g) {
  const auto aligned = [](const void* p, std::uintptr_t to) { return reinterpret_cast<std::uintptr_t>(p) % to == 0; };
  return is_half(g.out) && !g.accumulate && g.ldc % 8 == 0 && aligned(g.c, 16) && aligned(g.before_activation, 16) &&
         aligned(g.saved, 4);
}

// A strip is half of a box, 32 columns. A thread has 16 values of it: of each 8 columns two neighbours in two rows, 8
// rows apart (see ptx::Accumulator).
inline constexpr int strip_columns = box_columns / 2, strip_values = strip_columns / 2;

// Adds the bias. column: of the first value.
template <class T> __device__ __forceinline__ void add_bias(const Gemm& g, int column, float (&v)[strip_values]) {
  const T* const bias = static_cast<const T*>(g.bias);
#pragma unroll
  for (int i = 0; i < strip_values; i += 4) {
    const int at = column + 2 * i;
    const float b0 = at < g.n ? static_cast<float>(bias[at]) : 0;
    const float b1 = at + 1 < g.n ? static_cast<float>(bias[at + 1]) : 0;
    v[i] += b0, v[i + 1] += b1, v[i + 2] += b0, v[i + 3] += b1;
  }
}

// v = f(v as it is when it has been stored and read again, index).
template <class T, class F> __device__ __forceinline__ void apply(float (&v)[strip_values], const F& f) {
#pragma unroll
  for (int i = 0; i < strip_values; ++i) v[i] = f(static_cast<float>(T(v[i])), i);
}
// The activation or, with what was saved for it, its gradient. row, column: of the first value.
template <class T>
__device__ __forceinline__ void activate_strip(const Gemm& g, int item, int row, int column, float (&v)[strip_values]) {
  if (!g.saved) {
    switch (g.activation) {
      case Activation::none: return;
      case Activation::relu: return apply<T>(v, [](float x, int) { return pointwise::Relu().f(x); });
      case Activation::gelu: return apply<T>(v, [](float x, int) { return pointwise::Gelu().f(x); });
      case Activation::gelu_tanh: return apply<T>(v, [](float x, int) { return pointwise::GeluTanh().f(x); });
    }
  }
  std::uint32_t saved[strip_values / 2];  // pairs
#pragma unroll
  for (int i = 0; i < strip_values / 2; ++i) {
    const int r = row + i % 2 * 8, c = column + i / 2 * 8;  // rows have an even number of columns
    const T* from = static_cast<const T*>(g.saved) + (std::int64_t{item} * g.m + r) * g.ldc + c;
    saved[i] = r < g.m && c < g.n ? __ldca(reinterpret_cast<const std::uint32_t*>(from)) : 0;
  }
  const auto with = [&](const auto& formula) {
    apply<T>(v, [&](float x, int i) {
      const auto half = static_cast<std::uint16_t>(saved[i / 2] >> 16 * (i % 2));
      return formula.df(x, static_cast<float>(std::bit_cast<T>(half)));
    });
  };
  switch (g.activation) {
    case Activation::none: return;
    case Activation::relu: return with(pointwise::Relu());
    case Activation::gelu: return with(pointwise::Gelu());
    case Activation::gelu_tanh: return with(pointwise::GeluTanh());
  }
}

// Rounds a box's first or second strip to shared memory, where TMA expects it: 16-byte chunks are swizzled within 8
// rows.
template <class T>
__device__ __forceinline__ void put_strip(std::uint16_t* box, bool second, const float (&v)[strip_values]) {
  const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;  // whose address this lane supplies
  const int chunk = (second ? strip_columns / 8 : 0) + lane / 16;
#pragma unroll
  for (int j = 0; j < strip_columns / 8; j += 2) {  // 16 columns
    std::uint32_t halves[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) halves[i] = hopper::pack<T>(v[4 * j + 2 * i], v[4 * j + 2 * i + 1]);
    hopper::store_matrices(box + row * box_columns + ((chunk + j) ^ row % 8) * 8, halves);
  }
}

// Stores a strip of a warpgroup's 64 rows, with the box that it completes. Two boxes pass through shared memory: one is
// stored while the next one is filled or, if what comes before the activation is stored, too, both at once.
// simple: there is at most a bias and relu.
template <class T, bool simple>
__device__ __forceinline__ void store_strip(const Gemm& g, const Place& place, int consumer, int strip,
                                            float (&v)[strip_values], std::uint16_t (&boxes)[2][64 * box_columns],
                                            const Maps& maps) {
  const int thread = threadIdx.x % 128, lane = thread % 32, row = place.row + 64 * consumer;
  const int column = place.column + strip * strip_columns, first = column + lane % 4 * 2;
  const bool second = strip % 2 != 0, both = !simple && g.before_activation;
  if (g.bias) add_bias<T>(g, first, v);
  if (!second) {
    if (thread == 0) both ? hopper::copies_out_wait<0>() : hopper::copies_out_wait<1>();
    hopper::warpgroup_sync(1 + consumer);  // what was stored from the boxes that are filled now has been read
  }
  if (both) put_strip<T>(boxes[0], second, v);
  if constexpr (!simple) activate_strip<T>(g, place.item, row + thread / 32 * 16 + lane / 4, first, v);
  else if (g.activation == Activation::relu) apply<T>(v, [](float x, int) { return pointwise::Relu().f(x); });
  std::uint16_t* const box = boxes[both ? 1 : strip / 2 % 2];
  put_strip<T>(box, second, v);
  if (!second) return;
  hopper::show_stores();
  hopper::warpgroup_sync(1 + consumer);
  if (thread != 0) return;
  if (both) hopper::copy_box_out(&maps.before, boxes[0], column - strip_columns, row, place.item);
  hopper::copy_box_out(&maps.c, box, column - strip_columns, row, place.item);
  hopper::copies_out_commit();
}

// Stores a warpgroup's 64 rows by TMA.
template <class T, int tile_n>
__device__ __forceinline__ void store_boxes(const Gemm& g, const Place& place, int consumer,
                                            const float (&d)[tile_n / 2], std::uint16_t (&boxes)[2][64 * box_columns],
                                            const Maps& maps) {
  float v[strip_values];
  if (!g.before_activation && !g.saved && (g.activation == Activation::none || g.activation == Activation::relu)) {
#pragma unroll
    for (int strip = 0; strip < tile_n / strip_columns; ++strip) {
#pragma unroll
      for (int i = 0; i < strip_values; ++i) v[i] = d[strip * strip_values + i];
      store_strip<T, true>(g, place, consumer, strip, v, boxes, maps);
    }
    return;
  }
#pragma unroll 1  // or the code of activations would be there for each of a thread's 128 results
  for (int strip = 0; strip < tile_n / strip_columns; ++strip) {
#pragma unroll
    for (int s = 0; s < tile_n / strip_columns; ++s) {
      if (s != strip) continue;
#pragma unroll
      for (int i = 0; i < strip_values; ++i) v[i] = d[s * strip_values + i];
    }
    store_strip<T, false>(g, place, consumer, strip, v, boxes, maps);
  }
}

}  // namespace mantissa::tensor_core::sm90
