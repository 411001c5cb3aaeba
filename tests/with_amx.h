// Tests of what multiplies bf16 by AMX use it on every processor with AVX512_BF16: the processor's own, or emulated
// where it has none (tests/amx_machine.h).
#pragma once

#include <cstdlib>
#include <optional>

#include "core/amx.h"
#include "core/gemm_half.h"
#include "tests/amx_machine.h"
#include "tests/catch_compat.h"

namespace mantissa::test {
#if defined(MANTISSA_HAS_AMX_MACHINE)

// Products use AMX during its lifetime: the processor's or the emulation.
struct WithAmx {
  const bool real = uses_amx();
  std::optional<amx_machine::Machine> machine;
  WithAmx() {
    if (!real) machine.emplace(), set_amx(true);
  }
  ~WithAmx() {
    if (!real) set_amx(false);
  }
};

// Whether the current kernels use AMX for products: packing two elements of k then fills a whole tile.
inline bool amx_is_possible() {
  WithAmx amx;
  HalfProduct pair{};
  pair.dtype = bf16, pair.k = 2;
  std::int64_t units = 0;
  kernels::gemm_half_units(cpu, pair, &units);
  if (units == 16 * half_panel && __builtin_cpu_supports("avx512bf16")) return true;
  WARN("skipped: AMX is used beside AVX512_BF16, which this machine or build does not have");
  return false;
}

// The same where $MANTISSA_TEST_AMX asks for it. Inside a test case: Catch2 has a handler of its own for illegal
// instructions outside of ours.
class AmxIfAsked {
 public:
  AmxIfAsked() {
    if (std::getenv("MANTISSA_TEST_AMX") && amx_is_possible()) amx_.emplace();
  }

 private:
  std::optional<WithAmx> amx_;
};
#else
struct AmxIfAsked {
  AmxIfAsked() {
    if (std::getenv("MANTISSA_TEST_AMX")) WARN("skipped: AMX is for x86-64");
  }
};
#endif
}  // namespace mantissa::test
