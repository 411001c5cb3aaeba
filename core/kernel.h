// MANTISSA_KERNEL(name, parameters...) declares a kernel and generates its dispatcher
//   kernels::name(device, arguments...)
// which calls the version for the device and, on the CPU, for the instruction set detected at startup. There is no
// registry: a missing CPU kernel is a link error. CUDA kernels are weak symbols, null in a program without the CUDA
// backend (core/accelerator.h); tests/cuda_kernels_test.sh lists those that are missing.
//
// Every file in core/cpu/ is compiled once per instruction set into its own namespace; it defines
//   namespace mantissa::cpu_backend::MANTISSA_ISA { void name(parameters...) { ... } }
#pragma once

#include "core/accelerator.h"
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

// Declares a kernel of the CUDA backend whose CPU counterpart is an ordinary function.
#define MANTISSA_CUDA_KERNEL(name, ...) \
  namespace cuda_backend { MANTISSA_ACCELERATOR void name(__VA_ARGS__); }

#define MANTISSA_KERNEL(name, ...)                                                   \
  MANTISSA_KERNEL_CPU(name, __VA_ARGS__)                                             \
  MANTISSA_CUDA_KERNEL(name, __VA_ARGS__)                                            \
  namespace kernels {                                                                \
  template <class... A> inline void name(::mantissa::Device device, const A&... a) { \
    if (!device.is_cpu()) [[unlikely]]                                               \
      return cuda_backend::prepare(&cuda_backend::name, device)(a...);               \
    MANTISSA_KERNEL_CALL_CPU(name)                                                   \
  }                                                                                  \
  }
