// How the threads of an elementwise kernel iterate over their operands. Also compiled at run time by NVRTC
// (cuda/fused.cuh), without the host-only parts.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <bit>

#include "core/layout.h"
#endif
#include "core/dtype.h"
#include "cuda/vec.cuh"

namespace mantissa::cuda_backend {

inline constexpr int walk_rank = 8;

// n / d for n < 2^31, as one multiplication (Granlund and Montgomery, PLDI 1994).
struct Divider {
  unsigned divisor = 1, magic = 0, shift = 0;
  Divider() = default;
#if !defined(__CUDACC_RTC__)
  explicit Divider(std::int64_t d) : divisor(d > 0 ? static_cast<unsigned>(d) : 1) {
    shift = static_cast<unsigned>(std::bit_width(divisor - 1));  // the least with 2^shift >= divisor
    magic = static_cast<unsigned>(((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - divisor)) / divisor + 1);
  }
#endif
  __device__ unsigned divide(unsigned n) const { return (__umulhi(n, magic) + n) >> shift; }
};

// The kernel parameter. Dimension 0 is the innermost one.
template <int arity> struct Walk {
  int rank = 1;
  unsigned count = 0;
  bool interleaves = false;  // packs (Quads in cuda/vec.cuh): an operand's elements have four bytes
  Divider sizes[walk_rank];
  struct Operand {
    void* data;
    Dtype dtype;
    bool constant;
    double value;
    std::int64_t integer;
    std::int64_t strides[walk_rank];
  } operand[arity + 1];

  __device__ void offsets(unsigned i, std::int64_t (&at)[arity + 1]) const {
#pragma unroll
    for (int k = 0; k <= arity; ++k) at[k] = 0;
    for (int d = 0; d < rank; ++d) {
      const unsigned next = d + 1 < rank ? sizes[d].divide(i) : 0, index = i - next * sizes[d].divisor;
#pragma unroll
      for (int k = 0; k <= arity; ++k) at[k] += index * operand[k].strides[d];
      i = next;
    }
  }

  // This thread's part of the elements, and where it is in each operand. With several dimensions the innermost one
  // consists of whole packs, or of whole interleaved packs.
  __device__ Share share(Quads (&at)[arity + 1]) const {
    const unsigned begin = blockIdx.x * blockDim.x * pack, rest = count - begin, most = blockDim.x * pack;
    const Share mine = share_of(begin, rest < most ? rest : most, interleaves);
    std::int64_t first[arity + 1];
    offsets(static_cast<unsigned>(mine.at.first), first);
#pragma unroll
    for (int k = 0; k <= arity; ++k) at[k] = {first[k], mine.at.apart};
    return mine;
  }
};

template <class C, class Operand> __device__ inline C constant_of(const Operand& o) {
  if constexpr (std::is_integral_v<C>) return o.integer;
  else return static_cast<C>(o.value);
}

// A pack of an operand whose innermost stride is 1, or 0 if it is broadcast.
template <class C, class Operand>
__device__ inline void load_operand(C (&to)[pack], const Operand& o, const Quads& at) {
  if (!o.constant && o.strides[0] != 0) return load_pack(to, o.data, o.dtype, at);
  const C v = o.constant ? constant_of<C>(o) : load_element<C>(o.data, o.dtype, at.first);
#pragma unroll
  for (int k = 0; k < pack; ++k) to[k] = v;
}

#if !defined(__CUDACC_RTC__)
static_assert(walk_rank == Dims::max_rank);
// From a LoopOver (cuda/elementwise.h) with at most arity + 1 operands.
template <int arity, class L> Walk<arity> walk_of(const L& loop) {
  Walk<arity> w{};
  w.rank = loop.sizes.rank();
  w.count = static_cast<unsigned>(numel_of(loop.sizes));
  for (int d = 0; d + 1 < w.rank; ++d)
    w.sizes[d] = Divider(loop.sizes[w.rank - 1 - d]);  // the outermost dimension needs no division
  for (int k = 0; k <= arity && k < loop.operands; ++k) {
    const auto& from = loop.operand[k];
    auto& o = w.operand[k];
    o.data = from.constant ? nullptr : from.data;
    o.dtype = from.dtype;
    o.constant = from.constant;
    o.value = from.value;
    o.integer = from.integer;
    for (int d = 0; d < w.rank; ++d) o.strides[d] = loop.strides[k][w.rank - 1 - d];
    w.interleaves = w.interleaves || (!o.constant && o.strides[0] != 0 && size_of(o.dtype) == 4);
  }
  w.interleaves = w.interleaves && (w.rank == 1 || loop.sizes[w.rank - 1] % interleaved == 0);
  return w;
}
#endif

}  // namespace mantissa::cuda_backend
