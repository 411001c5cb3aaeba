// AMX: matrix registers of 16 rows by 64 bytes and an instruction that multiplies two of them, in Intel server
// processors since Sapphire Rapids. Its bf16 products have eight times the throughput of AVX512_BF16, by Intel's
// figures; used by core/cpu/gemm_amx.h for matrix products, recurrent layers and attention. Tested with the processor's
// instructions, and where it has none with emulated ones: docs/design.md, "Compilers and machines".
#pragma once

namespace mantissa {

// Whether bf16 products use AMX: the processor has it, the system lets this process use its registers
// (Linux requires a request), a trial product gave the right result, and $MANTISSA_ISA is not set.
bool uses_amx();

// For tests, which emulate the instructions. Must not be called while products run.
void set_amx(bool on);
bool amx_trial();  // the trial product: whether its result is right

}  // namespace mantissa
