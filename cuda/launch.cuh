// All kernels are launched through this function: launch("name", kernel, {blocks, threads}, arguments...). It checks
// limits, names the launch for profilers, enqueues it on the current stream and reports failures. If .cu files are
// compiled by a C++ compiler (tests/cuda_shim), it runs the kernel on the CPU.
//
// Rules for kernels: they begin with wait_for_previous_kernel(). So that both compilers accept them: no <<<>>>; dynamic
// shared memory by MANTISSA_SHARED; warp operations with a mask; inline PTX only in cuda/ptx.cuh and below, with a CPU
// counterpart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "cuda/check.h"
#include "cuda/launch.h"
#include "cuda/recorded_memory.h"
#include "cuda/runtime.h"

#if defined(MANTISSA_CUDA_SHIM)
#include "tests/cuda_shim/shim.h"
#define MANTISSA_SHARED(type, name) type* name = static_cast<type*>(::cuda_shim::dynamic_shared())
#else
// One array for all kernels of a file, which may use it with different types.
extern __shared__ __align__(16) unsigned char mantissa_shared_bytes[];
#define MANTISSA_SHARED(type, name) type* name = reinterpret_cast<type*>(mantissa_shared_bytes)
#endif

namespace mantissa::cuda_backend {

// Total bytes of a kernel's parameters, each with its own alignment. Every driver supports 4096; more (32,764 since
// CUDA 12.1 and sm_70) would require such a new driver.
template <class... P> constexpr std::size_t parameter_bytes() {
  std::size_t n = 0;
  ((n = (n + alignof(P) - 1) / alignof(P) * alignof(P) + sizeof(P)), ...);
  return n;
}

// Converts an argument to the parameter type. Sizes are 64-bit on the host, but int in some kernels.
template <class P, class A> P fitted(const char* name, const A& a) {
  if constexpr (std::is_integral_v<P> && std::is_integral_v<A> && !std::is_same_v<P, bool> &&
                !std::is_same_v<A, bool>) {
    if (!std::in_range<P>(a)) [[unlikely]]
      fail_parameter(name, static_cast<long long>(a));
  }
  return static_cast<P>(a);
}

// One argument as the kernel declares it: unchanged, or converted.
template <class P, class A> struct Parameter {
  P value;
  Parameter(const char* name, const A& a) : value(fitted<P>(name, a)) {}
  void* address() { return &value; }
};
template <class P> struct Parameter<P, P> {
  const P& value;
  Parameter(const char*, const P& a) : value(a) {}
  void* address() { return const_cast<P*>(&value); }
};

// The parameters live as long as the call, which copies them.
template <class... P> void call_launch(const char* name, const void* kernel, const Grid& grid, P... parameters) {
  void* addresses[] = {parameters.address()..., nullptr};
  enqueue(name, kernel, grid, addresses);
}

// Does nothing for an empty grid.
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), const Grid& grid, const A&... arguments) {
  static_assert(parameter_bytes<P...>() <= 4096, "a kernel's parameters must fit into 4 KiB");
  if (grid.blocks.x == 0) return;
  const void* const function = reinterpret_cast<const void*>(kernel);
  if (grid.shared > shared_of_every_kernel) allow_shared(function, grid.shared, name);
  if (records_here()) [[unlikely]] (note_parameter<std::remove_const_t<P>>(arguments), ...);
#if defined(MANTISSA_CUDA_SHIM)
  if (!cuda_shim::null_device) {
    const auto run = [function, kernel, &grid](const P&... values) {
      const cuda_shim::Argument list[] = {{&values, sizeof(P), std::is_pointer_v<P>}..., {}};
      return cuda_shim::launch(
          stream(), function, list, [=] { kernel(values...); },
          {grid.blocks, grid.threads, grid.shared, grid.cluster, true});
    };
    return after_launch(name, run(fitted<P>(name, arguments)...));
  }
#endif
  call_launch(name, function, grid, Parameter<std::remove_const_t<P>, A>(name, arguments)...);
}

// The first statement of every kernel: waits for what was enqueued before it, and then lets the kernel after it come,
// to wait likewise. In a captured step kernels are so scheduled while the one before still runs (cuda/launch.cpp), and
// a short one costs less time; launched otherwise, they are scheduled after it, and this does nothing.
// Source: CUDA Programming Guide, "Programmatic Dependent Launch".
__device__ inline void wait_for_previous_kernel() {
#if defined(MANTISSA_CUDA_SHIM)
  cuda_shim::note_wait();
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;\n");
#endif
}

// In a kernel: records that a value is out of range; the host throws the error when it next waits.
__device__ inline void note_out_of_range(Note* note, int kind, long long value, long long size, long long position) {
  if (atomicExch(&note->set, 1) != 0) return;  // the first one is enough
  note->kind = kind;
  note->value = value;
  note->size = size;
  note->position = position;
}

}  // namespace mantissa::cuda_backend
