// Kernels that process whole rows: softmax, norms, class losses. A row is assigned to a warp, or to a block if it is
// long, and is read from memory once: its elements are held in registers until all passes are done. Rows too long for
// that are read again in every pass. The choice is a template parameter that the algorithm does not see:
//   rows.each([&](const Quads& at, auto& v) { ... })    v[i][k]: element at[k] of input i
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "core/memory_order.h"
#include "core/tensor.h"
#include "cuda/launch.cuh"
#include "cuda/reduce.cuh"
#include "cuda/vec.cuh"

namespace mantissa::cuda_backend {

struct RowOperand {
  void* data = nullptr;
  Dtype dtype = f32;
};
inline RowOperand operand(const View& v) { return {v.data, v.dtype}; }

// A slot: a pack of f32, f16 or bf16 (plan_rows), or a single element of any dtype, at[0].
template <class C, int width> __device__ inline void load_slot(C (&to)[width], const RowOperand& o, const Quads& at) {
  if constexpr (width == pack) load_pack<true>(to, o.data, o.dtype, at);
  else to[0] = load_element<C>(o.data, o.dtype, at.first);
}
template <class C, int width>
__device__ inline void store_slot(const RowOperand& o, const Quads& at, const C (&from)[width]) {
  if constexpr (width == pack) store_pack<true>(o.data, o.dtype, at, from);
  else store_element(o.data, o.dtype, at.first, from[0]);
}
// Which of a slot's elements is element i of the row; -1 if none.
template <int width> __device__ inline int index_in_slot(const Quads& at, std::int64_t i) {
  constexpr int quad = width == pack ? pack / 2 : width;
  const std::int64_t first = i - at.first, second = first - at.apart;
  if (first >= 0 && first < quad) return static_cast<int>(first);
  return width == pack && second >= 0 && second < quad ? static_cast<int>(quad + second) : -1;
}

// A row's length, and whether its packs are interleaved.
struct RowShape {
  int n;
  bool interleaves;
  __host__ __device__ RowShape(int n, bool interleaves = false) : n(n), interleaves(interleaves) {}
  // The slot of this thread of which j is the first element, or would be if nothing were interleaved.
  template <int width> __device__ Quads slot(int j) const {
    return width == pack && interleaves ? interleave(j) : Quads(j);
  }
};

// One row of `inputs` tensors. held: slots that each thread keeps in registers; 0: none, every pass reads again.
template <class C, int width_, int held, int inputs> struct Row {
  static constexpr int width = width_;
  RowOperand from[inputs];
  std::int64_t start;
  RowShape shape;
  C v[held > 0 ? held : 1][inputs][width];

  __device__ Row(const RowOperand (&operands)[inputs], std::int64_t row, RowShape shape)
      : start(row * shape.n), shape(shape) {
#pragma unroll
    for (int i = 0; i < inputs; ++i) from[i] = operands[i];
    each_held([&](int s, const Quads& at, C (&)[inputs][width]) { load(v[s], at); });
  }
  __device__ void load(C (&to)[inputs][width], const Quads& at) const {
#pragma unroll
    for (int i = 0; i < inputs; ++i) load_slot(to[i], from[i], start + at);
  }
  // For the slots that this thread holds, of which s is the number.
  template <class F> __device__ void each_held(F&& f) {
#pragma unroll
    for (int s = 0; s < held; ++s) {
      const int j = (s * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * width;
      if (j < shape.n) f(s, shape.slot<width>(j), v[s]);
    }
  }
  template <class F> __device__ void each(F&& f) {
    if constexpr (held > 0) {
      each_held([&](int, const Quads& at, C (&e)[inputs][width]) { f(at, e); });
    } else {
      const int step = static_cast<int>(blockDim.x) * width;
      for (int j = static_cast<int>(threadIdx.x) * width; j < shape.n; j += step) {
        load(v[0], shape.slot<width>(j));
        f(shape.slot<width>(j), v[0]);
      }
    }
  }
  // Folds f(v[0], v[1], ...) over the row; every thread gets the result.
  template <class Fold, class F> __device__ C fold(C* scratch, F&& f) {
    C sum = Fold::template identity<C>();
    each([&](const Quads&, const C (&e)[inputs][width]) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        if constexpr (inputs == 1) sum = Fold{}(sum, f(e[0][k]));
        else if constexpr (inputs == 2) sum = Fold{}(sum, f(e[0][k], e[1][k]));
        else sum = Fold{}(sum, f(e[0][k], e[1][k], e[2][k]));
      }
    });
    return folded<Fold>(sum, scratch);
  }
  template <class Fold> __device__ static C folded(C v, C* scratch) {
    return blockDim.x == 32 ? fold_warp<Fold>(v) : fold_block<Fold>(v, scratch);
  }

  // Replaces the elements of the first input, which must be held, by exp(element - the largest), and returns their sum.
  __device__ C exponentiate(C* scratch) {
    static_assert(held > 0);
    const C largest = fold<Max>(scratch, [](C e) { return e; });
    each([&](const Quads&, C (&e)[inputs][width]) {
#pragma unroll
      for (int k = 0; k < width; ++k) e[0][k] = std::exp(e[0][k] - largest);
    });
    return fold<Sum>(scratch, [](C e) { return e; });
  }

  // The largest element of the first input and the sum of exp(element - largest). A row that is not held is read once:
  // each thread rescales its sum whenever it finds a larger element (online softmax, Milakov and Gimelshein, 2018).
  struct Exponentials { C largest, sum; };
  __device__ Exponentials exponentials(C* scratch) {
    if constexpr (held > 0) {
      const C largest = fold<Max>(scratch, [](C e) { return e; });
      return {largest, fold<Sum>(scratch, [=](C e) { return std::exp(e - largest); })};
    } else {
      const C lowest = Max::identity<C>();
      C mine = lowest, sum = 0;
      each([&](const Quads&, const C (&e)[inputs][width]) {
        C now = mine;
#pragma unroll
        for (int k = 0; k < width; ++k) now = Max{}(now, e[0][k]);
        if (now == lowest) return;  // only minus infinity so far
        sum *= std::exp(mine - now);
#pragma unroll
        for (int k = 0; k < width; ++k) sum += std::exp(e[0][k] - now);
        mine = now;
      });
      const C largest = folded<Max>(mine, scratch);
      sum = folded<Sum>(mine == lowest ? C(0) : sum * std::exp(mine - largest), scratch);
      return {largest, largest == lowest ? largest - largest : sum};  // NaN, as in the held case
    }
  }
};

inline constexpr std::int64_t longest_row = std::int64_t{1} << 30;
inline constexpr int held_slots = 4;
inline constexpr int most_row_threads = 512;  // for this many, registers hold two inputs of four packs each

// Distribution of rows over threads.
struct RowPlan {
  bool packs = false, fits = true;  // slots are packs; a row fits into the registers of its threads
  bool interleaves = false;         // packs: some elements are f32
  dim3 threads{32, 8};
  RowShape shape(std::int64_t n) const {
    check(n <= longest_row, "a GPU can process at most ", longest_row, " elements as one row, not ", n);
    return {static_cast<int>(n), interleaves};
  }
  std::int64_t blocks(std::int64_t rows) const { return (rows + threads.y - 1) / threads.y; }
};

inline RowPlan plan_rows(std::int64_t n, std::initializer_list<View> operands, Dtype compute) {
  RowPlan p;
  p.packs = n % pack == 0 && compute == f32;
  for (const View& v : operands) {
    if (!v) continue;
    p.packs = p.packs && (v.dtype == f32 || is_half(v.dtype)) && reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
    p.interleaves = p.interleaves || v.dtype == f32;
  }
  p.interleaves = p.interleaves && n % interleaved == 0;
  const std::int64_t slots = p.packs ? n / pack : n;
  if (slots > 32 * held_slots) {
    unsigned threads = 64;
    while (threads < most_row_threads && threads * held_slots < slots) threads *= 2;
    p.threads = dim3(threads);
    p.fits = threads * held_slots >= slots;
  }
  return p;
}

// Calls f.template operator()<C, width, held>() for the plan.
template <class F> void visit_rows(Dtype compute, const RowPlan& p, F&& f) {
  if (compute == f64) p.fits ? f.template operator()<double, 1, held_slots>() : f.template operator()<double, 1, 0>();
  else if (p.packs) p.fits ? f.template operator()<float, pack, held_slots>() : f.template operator()<float, pack, 0>();
  else p.fits ? f.template operator()<float, 1, held_slots>() : f.template operator()<float, 1, 0>();
}
inline Grid grid_of(const RowPlan& p, std::int64_t rows) {
  const std::int64_t blocks = p.blocks(rows);
  check(blocks <= 0x7fffffff, "internal error: ", rows, " rows do not fit into one launch");
  return {dim3(static_cast<unsigned>(blocks)), p.threads};
}
// This thread's row; may be beyond the last row, but only for whole warps.
__device__ inline std::int64_t this_row() { return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }

// --- host: tensors as contiguous rows along a dimension ---
inline View moved_to_last(View v, int dim) {
  if (v.dim() == 0) return v;
  const std::int64_t size = v.sizes[dim], stride = v.strides[dim];
  v.sizes.erase(dim);
  v.strides.erase(dim);
  v.sizes.push_back(size);
  v.strides.push_back(stride);
  return v;
}
void copy(const View& y, const View& x);  // cuda/copy.cu

// A view that is contiguous, or channels-last for images and volumes: the original, or a copy.
class DenseInput {
 public:
  DenseInput(const View& v, Layout layout = Layout::contiguous) : view(v) {
    if (!v || lies_in(v, layout)) return;
    copy_ = Tensor::allocate(v.sizes, v.dtype, v.device, layout);
    view = copy_.view();
    copy(view, v);
  }
  View view;

 private:
  Tensor copy_;
};
// The same for a result; finish() copies back if it was a copy.
class DenseOutput {
 public:
  DenseOutput(const View& v, Layout layout = Layout::contiguous) : view(v), target_(v) {
    if (!v || lies_in(v, layout)) return;
    copy_ = Tensor::allocate(v.sizes, v.dtype, v.device, layout);
    view = copy_.view();
  }
  void finish() const { if (copy_.defined()) copy(target_, view); }
  View view;

 private:
  View target_;
  Tensor copy_;
};

}  // namespace mantissa::cuda_backend
