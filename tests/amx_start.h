// For tests of what multiplies bf16 by AMX: with $MANTISSA_TEST_AMX they use it on every processor with AVX512_BF16,
// emulated where the processor has none (tests/amx_machine.h).
#pragma once

#include <cstdlib>
#include <optional>

#include "core/amx.h"
#include "tests/amx_machine.h"

namespace mantissa::test {

// During its lifetime, which must be inside a test case: there Catch2 has a handler of its own for illegal
// instructions.
class AmxIfAsked {
 public:
  AmxIfAsked() {
#if defined(MANTISSA_HAS_AMX_MACHINE)
    if (!std::getenv("MANTISSA_TEST_AMX") || uses_amx() || !__builtin_cpu_supports("avx512bf16")) return;
    machine_.emplace();
    set_amx(true);
  }
  ~AmxIfAsked() {
    if (machine_) set_amx(false);
  }

 private:
  std::optional<amx_machine::Machine> machine_;
#else
  }
#endif
};

}  // namespace mantissa::test
