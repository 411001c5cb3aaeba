#include "core/cpu/isa.h"

#include <cstdlib>
#include <string_view>

#include "core/error.h"

namespace mantissa::cpu_backend {

// Tests the individual features that distinguish x86-64-v3 and v4: clang knows those names only from version 18 on.
Isa best_isa() {
#if defined(MANTISSA_HAS_X86_ISAS)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? Isa::avx512 : v3 ? Isa::avx2 : Isa::baseline;
#else
  return Isa::baseline;
#endif
}

namespace {
Isa isa_at_start() {
  const Isa best = best_isa();
  const char* wish = std::getenv("MANTISSA_ISA");
  if (!wish) return best;
  for (Isa i : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (std::string_view(wish) == name_of(i) && i <= best) return i;
  }
  return best;
}
}  // namespace

Isa current_isa = isa_at_start();

void set_isa(Isa isa) {
  check(isa <= best_isa(), "set_isa: this machine does not run ", name_of(isa), ", at most ", name_of(best_isa()));
  current_isa = isa;
}
const char* name_of(Isa isa) {
  return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "baseline";
}

}  // namespace mantissa::cpu_backend
