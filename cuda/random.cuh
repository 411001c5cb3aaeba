// Random words at a kernel's position in the random number stream (RandomPosition in cuda/runtime.h).
#pragma once

#include <cstdint>

#include "core/random.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {

__device__ inline RngState start_of(const RandomPosition& at) {
  return at.state ? RngState{at.state[0], at.state[1] + at.offset} : RngState{at.seed, at.offset};
}
__device__ inline Philox::Words words_at(const RandomPosition& at, std::int64_t group) {
  const RngState start = start_of(at);
  return Philox{start.seed}(start.offset + static_cast<std::uint64_t>(group));
}

}  // namespace mantissa::cuda_backend
