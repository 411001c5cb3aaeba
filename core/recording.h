// Whether this thread's launches are being recorded into a graph for later replay (jit/capture.h), the error for
// operations that cannot be recorded, and a wait that does not disturb other threads' recordings.
#pragma once

#include "core/accelerator.h"
#include "core/tensor.h"

namespace mantissa {
namespace cuda_backend {
MANTISSA_ACCELERATOR bool is_capturing();
MANTISSA_ACCELERATOR void wait_for_stream();
}

inline bool is_recording(Device d) { return !d.is_cpu() && cuda_backend::is_capturing(); }

// Waits for this thread's launches. synchronize(d) waits for all threads, and invalidates a recording in any of them.
inline void wait_for_own_work(Device d) {
  if (!d.is_cpu()) cuda_backend::prepare(&cuda_backend::wait_for_stream, d)();
}

// For functions that read values of x back to the host: while a step is recorded there are no values yet.
inline void check_may_read(const char* function, const Tensor& x, const char* why) {
  if (!is_recording(x.device())) return;
  fail(function, ": cannot be part of a step that is captured: ", why,
       ", so it waits for the device; move it out of the step");
}

}  // namespace mantissa
