// How the threads of an elementwise kernel iterate over their operands. Also compiled at run time by NVRTC
// (cuda/fused.cuh), without the host-only parts.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <bit>

#include "core/layout.h"
#endif
#include "core/dtype.h"

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
};

template <class C, class Operand> __device__ inline C constant_of(const Operand& o) {
  if constexpr (std::is_integral_v<C>) return o.integer;
  else return static_cast<C>(o.value);
}

#if !defined(__CUDACC_RTC__)
static_assert(walk_rank == Dims::max_rank);
// From a LoopOver (cuda/elementwise.h) with at most arity + 1 operands.
template <int arity, class L> Walk<arity> walk_of(const L& loop) {
  Walk<arity> w;
  w.rank = loop.sizes.rank();
  w.count = static_cast<unsigned>(numel_of(loop.sizes));
  for (int d = 0; d + 1 < w.rank; ++d)
    w.sizes[d] = Divider(loop.sizes[w.rank - 1 - d]);  // the outermost dimension needs no division
  for (int k = 0; k <= arity && k < loop.operands; ++k) {
    const auto& o = loop.operand[k];
    w.operand[k] = {o.constant ? nullptr : o.data, o.dtype, o.constant, o.value, o.integer, {}};
    for (int d = 0; d < w.rank; ++d) w.operand[k].strides[d] = loop.strides[k][w.rank - 1 - d];
  }
  return w;
}
#endif

}  // namespace mantissa::cuda_backend
