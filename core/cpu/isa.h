// Which of the compiled instruction sets is used on this machine. Detected once at startup; $MANTISSA_ISA
// (baseline, avx2, avx512) or set_isa, used in tests, selects a lower one.
#pragma once

#if defined(__x86_64__) && !defined(MANTISSA_ONE_ISA)  // cmake/options.cmake
#define MANTISSA_HAS_X86_ISAS 1  // here, not in the build: must be the same in every file of a program
#endif

namespace mantissa::cpu_backend {

enum class Isa { baseline, avx2, avx512 };

extern Isa current_isa;
inline Isa isa() { return current_isa; }
Isa best_isa();         // what the machine supports
void set_isa(Isa isa);  // throws if the machine does not support it
const char* name_of(Isa isa);

}  // namespace mantissa::cpu_backend
