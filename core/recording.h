// Whether what this thread launches is being recorded into a graph, to run later and again (jit/capture.h), and the
// error for what cannot be.
#pragma once

#include "core/accelerator.h"
#include "core/tensor.h"

namespace mantissa {
namespace cuda_backend {
MANTISSA_ACCELERATOR bool is_capturing();
}

inline bool is_recording(Device d) { return !d.is_cpu() && cuda_backend::is_capturing(); }

// For functions that read values of x back to the host: while a step is recorded there are none yet.
inline void check_may_read(const char* function, const Tensor& x, const char* why) {
  if (!is_recording(x.device())) return;
  fail(function, ": cannot be part of a step that is captured: ", why,
       ", so it waits for the device; move it out of the step");
}

}  // namespace mantissa
