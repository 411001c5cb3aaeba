// Checks of a tensor's elements. On the CPU they throw at once. On a GPU a kernel makes them, and the error is thrown
// the next time the host waits, as for an index out of range: nothing waits here, and a captured step may contain them.
#pragma once

#include "core/kernel.h"
#include "core/ops.h"

namespace mantissa {

// Notes "name: message" as an error unless all of ok (bool, dense) are true.
MANTISSA_CUDA_KERNEL(note_unless_all, const View& ok, const char* name, const char* message)

// `name` is that of the function. On the CPU the error is `message` alone, to which operators and named() add it.
inline void check_all(const char* name, const Tensor& ok, const char* message) {
  if (ok.device().is_cpu()) return check(all(ok).item<bool>(), message);
  cuda_backend::prepare(&cuda_backend::note_unless_all, ok.device())(contiguous(ok).view(), name, message);
}

}  // namespace mantissa
