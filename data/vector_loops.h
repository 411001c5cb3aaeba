// Loops over pixels for the vectors that the machine has: compiled for AVX2 as well as for the baseline. Without FMA,
// so that both give the same bits. Used by the transforms; not by programs.
#pragma once

#include "core/cpu/isa.h"

namespace mantissa::data {

#if defined(MANTISSA_HAS_X86_ISAS)
template <class F> [[gnu::target("avx2"), gnu::flatten]] void run_with_avx2(F loop) { loop(); }
#endif
// loop(), whose body the compiler makes vectors of. It should call nothing that is not inline, and capture values: what
// it captures by reference might be what it writes, for all that the compiler knows of u8.
template <class F> void with_vectors(F loop) {
#if defined(MANTISSA_HAS_X86_ISAS)
  if (cpu_backend::isa() != cpu_backend::Isa::baseline) return run_with_avx2(loop);
#endif
  loop();
}

}  // namespace mantissa::data
