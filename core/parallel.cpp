#include "core/parallel.h"

#include <omp.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/context.h"
#include "core/error.h"

namespace mantissa {
namespace {

std::atomic<bool> flush_denormals{true};

int default_threads() {
  if (const char* text = std::getenv("MANTISSA_NUM_THREADS")) {
    const int n = std::atoi(text);
    if (n > 0) return n;
  }
  return omp_get_max_threads();
}
std::atomic<int> threads{default_threads()};

}  // namespace

void set_num_threads(int n) {
  check(n >= 1, "set_num_threads: needs at least 1 thread, got ", n);
  threads = n;
}
int num_threads() { return threads; }

void set_flush_denormals(bool on) {
  flush_denormals = on;
  flush_denormals_in_this_thread();
}

void flush_denormals_in_this_thread() {
#if defined(__x86_64__)
  constexpr unsigned ftz_and_daz = 0x8040;
  const unsigned now = _mm_getcsr();
  const unsigned wanted = flush_denormals ? now | ftz_and_daz : now & ~ftz_and_daz;
  if (now != wanted) _mm_setcsr(wanted);
#elif defined(__aarch64__)
  std::uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  fpcr = flush_denormals ? fpcr | (1u << 24) : fpcr & ~(std::uint64_t{1} << 24);
  asm volatile("msr fpcr, %0" : : "r"(fpcr));
#endif
}

void parallel_for_impl(std::int64_t n, std::int64_t grain, RangeBody body, void* state) {
  const std::int64_t blocks = (n + grain - 1) / grain;
  const int team = static_cast<int>(blocks < threads ? blocks : threads.load());
  if (team <= 1 || omp_in_parallel()) {
    for (std::int64_t b = 0; b < blocks; ++b) body(state, b * grain, b + 1 < blocks ? (b + 1) * grain : n);
    return;
  }
  std::exception_ptr error;
  std::mutex error_mutex;
  const Context caller = context();  // workers see the caller's modes
#pragma omp parallel for num_threads(team) schedule(static)
  for (std::int64_t b = 0; b < blocks; ++b) {
    flush_denormals_in_this_thread();
    const Context own = std::exchange(context(), caller);
    try {
      body(state, b * grain, b + 1 < blocks ? (b + 1) * grain : n);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
    context() = own;
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace mantissa
