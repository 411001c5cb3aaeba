// MANTISSA_KERNEL(name, parameters...) declares a kernel once and makes its chooser
//   kernels::name(device, arguments...)
// which calls the version for the device and, on the CPU, for the instruction set found at start.
// There is no table to register in: a kernel that was forgotten is a link error.
//
// Every file in core/cpu/ is compiled once per instruction set into its own namespace; it defines
//   namespace mantissa::cpu_backend::MANTISSA_ISA { void name(parameters...) { ... } }
#pragma once

#include "core/cpu/isa.h"
#include "core/tensor.h"

#if defined(MANTISSA_HAS_X86_ISAS)
#define MANTISSA_KERNEL_CPU(name, ...)                            \
  namespace cpu_backend::baseline { void name(__VA_ARGS__); }             \
  namespace cpu_backend::avx2 { void name(__VA_ARGS__); }                 \
  namespace cpu_backend::avx512 { void name(__VA_ARGS__); }
#define MANTISSA_KERNEL_CALL_CPU(name)                            \
  switch (cpu_backend::isa()) {                                           \
    case cpu_backend::Isa::avx512: return cpu_backend::avx512::name(a...);        \
    case cpu_backend::Isa::avx2: return cpu_backend::avx2::name(a...);            \
    default: return cpu_backend::baseline::name(a...);                    \
  }
#else
#define MANTISSA_KERNEL_CPU(name, ...) namespace cpu_backend::baseline { void name(__VA_ARGS__); }
#define MANTISSA_KERNEL_CALL_CPU(name) return cpu_backend::baseline::name(a...);
#endif

#define MANTISSA_KERNEL(name, ...)                                                   \
  MANTISSA_KERNEL_CPU(name, __VA_ARGS__)                                             \
  namespace kernels {                                                                \
  template <class... A> inline void name(::mantissa::Device device, const A&... a) { \
    if (!device.is_cpu()) ::mantissa::fail("has no cuda kernel in this build");      \
    MANTISSA_KERNEL_CALL_CPU(name)                                                   \
  }                                                                                  \
  }
