// Pixel loops compiled for AVX2 as well as for the baseline, selected at run time. Without FMA, so that both give the
// same bits. Used by the transforms. Internal.
#pragma once

#include "core/cpu/isa.h"

namespace mantissa::data {

#if defined(MANTISSA_HAS_X86_ISAS)
template <class F> [[gnu::target("avx2"), gnu::flatten]] void run_with_avx2(F loop) { loop(); }
#endif
// Runs loop(), whose body the compiler vectorises. It should call only inline functions, and capture by value: a u8
// store may alias anything captured by reference.
template <class F> void with_vectors(F loop) {
#if defined(MANTISSA_HAS_X86_ISAS)
  if (cpu_backend::isa() != cpu_backend::Isa::baseline) return run_with_avx2(loop);
#endif
  loop();
}

}  // namespace mantissa::data
