// parallel_for: the only way work is split over CPU threads (core/team.h behind it).
// Work is cut into blocks whose size depends on the problem and never on the number of threads, so
// results are bitwise the same for any thread count.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mantissa {

// Calls body(begin, end) over [0, n) in blocks of at least `grain` items. Blocks run concurrently; an exception in one
// is rethrown here after the others have finished. Nested calls run serially.
using RangeBody = void (*)(void* state, std::int64_t begin, std::int64_t end);
void parallel_for_impl(std::int64_t n, std::int64_t grain, RangeBody body, void* state);

template <class F> void parallel_for(std::int64_t n, std::int64_t grain, F&& body) {
  if (n <= grain) {
    if (n > 0) body(std::int64_t{0}, n);
    return;
  }
  using Fn = std::remove_reference_t<F>;
  parallel_for_impl(n, grain, [](void* f, std::int64_t b, std::int64_t e) { (*static_cast<Fn*>(f))(b, e); },
                    const_cast<void*>(static_cast<const void*>(&body)));
}

// Elementwise loops over fewer elements stay on one thread.
inline constexpr std::int64_t grain_size = 16384;

void set_num_threads(int n);  // n >= 1; the default is $MANTISSA_NUM_THREADS, $OMP_NUM_THREADS or all cores
int num_threads();

// Denormal floats cost a hundred cycles each and carry nothing training needs: every thread that runs Mantissa kernels
// flushes them to zero. On by default; false restores IEEE gradual underflow.
void set_flush_denormals(bool on);
// Applies the setting to the calling thread; parallel_for does this in each worker.
void flush_denormals_in_this_thread();

}  // namespace mantissa
