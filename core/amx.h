// AMX: matrix registers of 16 rows by 64 bytes and a product of two of them, which Intel's server processors have from
// Sapphire Rapids on. Its products of bf16 have eight times the rate of AVX512_BF16's, by Intel's figures;
// core/cpu/gemm_amx.h multiplies so. It has been tested on emulated instructions only: docs/design.md, "Compilers and
// machines".
#pragma once

namespace mantissa {

// Whether products of bf16 go that way: the processor has AMX, the system lets this process use its registers
// (Linux wants to be asked), a trial product came out right, and $MANTISSA_ISA does not name something older.
bool uses_amx();

// For tests, which emulate the instructions. Not while products run.
void set_amx(bool on);
bool amx_trial();  // that product, by AMX: whether it comes out right

}  // namespace mantissa
