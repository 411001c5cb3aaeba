#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/error.h"
#include "core/processors.h"
#include "core/team.h"

namespace mantissa {
namespace {

std::atomic<bool> flush_denormals{true};

int default_threads() {
  for (const char* name : {"MANTISSA_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const char* text = std::getenv(name);
    const int n = text ? std::atoi(text) : 0;
    if (n > 0) return n;
  }
  return usable_processors().cores;
}
std::atomic<int> threads{0};  // 0: not yet determined
constinit thread_local bool serial = false;

}  // namespace

void set_num_threads(int n) {
  check(n >= 1, "set_num_threads: needs at least 1 thread, got ", n);
  threads = n;
}
int num_threads() {
  const int n = threads.load(std::memory_order_relaxed);
  if (n > 0) return n;
  int unasked = 0;
  threads.compare_exchange_strong(unasked, default_threads());
  return threads;
}

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

void run_serially_in_this_thread() { serial = true; }

void parallel_for_impl(std::int64_t n, std::int64_t grain, RangeBody body, void* state) {
  const std::int64_t blocks = (n + grain - 1) / grain;
  const int team = static_cast<int>(std::min<std::int64_t>(blocks, num_threads()));
  if (team <= 1 || serial) {
    for (std::int64_t b = 0; b < blocks; ++b) body(state, b * grain, b + 1 < blocks ? (b + 1) * grain : n);
    return;
  }
  struct Nested {  // nested calls run serially
    Nested() { serial = true; }
    ~Nested() { serial = false; }
  } const nested;
  flush_denormals_in_this_thread();
  run_in_team(team, n, grain, body, state);
}

}  // namespace mantissa
