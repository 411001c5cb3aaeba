// Fibers: stacks of their own, and switching between them. By hand on x86-64, where it takes some
// nanoseconds, by ucontext elsewhere. The sanitizers are told of every switch.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(MANTISSA_SHIM_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void*);
void __tsan_release(void*);
void __tsan_read_range(void*, unsigned long);
void __tsan_write_range(void*, unsigned long);
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
}
#endif

namespace cuda_shim {

#if defined(MANTISSA_SHIM_TSAN)
inline constexpr bool tsan_fibers = true;
inline void tsan_acquire(char* tag) { __tsan_acquire(tag); }
inline void tsan_release(char* tag) { __tsan_release(tag); }
inline void tsan_read(const void* p, std::size_t bytes) { __tsan_read_range(const_cast<void*>(p), bytes); }
inline void tsan_write(void* p, std::size_t bytes) { __tsan_write_range(p, bytes); }
// What the machine does for itself, on the stack of whichever fiber: it also sees memmove in
// code that is not instrumented.
struct TsanIgnore {
  TsanIgnore() { __tsan_ignore_thread_begin(); }
  ~TsanIgnore() { __tsan_ignore_thread_end(); }
};
#else
inline constexpr bool tsan_fibers = false;
inline void tsan_acquire(char*) {}
inline void tsan_release(char*) {}
inline void tsan_read(const void*, std::size_t) {}
inline void tsan_write(void*, std::size_t) {}
struct [[maybe_unused]] TsanIgnore {};
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(MANTISSA_SHIM_TSAN)
inline constexpr std::size_t stack_size = 512 * 1024;
#else
inline constexpr std::size_t stack_size = 128 * 1024;
#endif

struct Fiber {
  char* stack = nullptr;
  void* pointer = nullptr;  // the saved stack pointer
  ucontext_t context;
  void* tsan = nullptr;
  // where AddressSanitizer keeps locals; stays with the fiber, because mapping one takes long
  void* fake_stack = nullptr;
  const void* asan_bottom = nullptr;
  std::size_t asan_size = 0;
};

#if defined(__x86_64__)
// Stores the stack pointer in *from and goes on at `to`. Whoever goes on has all its registers on its stack. A jump, as
// every return address that the processor expects is another stack's.
[[gnu::always_inline]] inline void switch_stacks(void** from, void* to) {
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\t"  // below the red zone
      "pushq %%rbp\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rax\n\t"
      "movq %%rsp, (%0)\n\t"
      "movq %1, %%rsp\n\t"
      "popq %%rax\n\t"
      "jmpq *%%rax\n"
      "1:\n\t"
      "popq %%rbp\n\t"
      "leaq 128(%%rsp), %%rsp"
      : "+D"(from), "+S"(to)
      :
      : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2",
        "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
        "cc", "memory");
}
#endif

inline Fiber* new_fiber() {
  auto* f = new Fiber;
  void* stack = mmap(nullptr, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) std::abort();
  f->stack = static_cast<char*>(stack);
  f->asan_bottom = stack;
  f->asan_size = stack_size;
#if defined(MANTISSA_SHIM_TSAN)
  f->tsan = __tsan_create_fiber(0);
#endif
  return f;
}

// The next switch to `f` calls entry() on its stack.
inline void start_fiber(Fiber& f, void (*entry)()) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(f.stack, stack_size);
#endif
#if defined(__x86_64__)
  auto* top = reinterpret_cast<void**>(f.stack + stack_size - 64);
  *--top = nullptr;  // keeps the stack aligned as after a call
  *--top = reinterpret_cast<void*>(entry);
  f.pointer = top;
#else
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack;
  f.context.uc_stack.ss_size = stack_size;
  f.context.uc_link = nullptr;
  makecontext(&f.context, entry, 0);
#endif
}

inline void prepare_main_fiber(Fiber& f) {
#if defined(MANTISSA_SHIM_TSAN)
  f.tsan = __tsan_get_current_fiber();
#endif
  (void)f;
}

// First thing on the stack of a fiber that was started: tells the sanitizer, and learns where it came from.
inline void entered_from([[maybe_unused]] Fiber& from, [[maybe_unused]] Fiber& self) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(self.fake_stack, &from.asan_bottom, &from.asan_size);
#endif
}

[[gnu::always_inline]] inline void switch_fiber(Fiber& from, Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.asan_bottom, to.asan_size);
#endif
#if defined(MANTISSA_SHIM_TSAN)
  __tsan_switch_to_fiber(to.tsan, 1);
#endif
#if defined(__x86_64__)
  switch_stacks(&from.pointer, to.pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

}  // namespace cuda_shim
