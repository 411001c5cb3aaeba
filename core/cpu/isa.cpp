#include "core/cpu/isa.h"

#include <cstdlib>
#include <string_view>

#include "core/error.h"

namespace mantissa::cpu_backend {

Isa best_isa() {
#if defined(MANTISSA_HAS_X86_ISAS)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return Isa::avx512;
  if (__builtin_cpu_supports("x86-64-v3")) return Isa::avx2;
#endif
  return Isa::baseline;
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
