// What a recorded step (Graph in core/accelerator.h) uses besides the memory of its own: tensors that were there
// before, whose addresses it knows. Once one of them is freed, or a weight begins or ceases to take part in training,
// the recording is outdated: the step would do something else now, and must be recorded again.
#pragma once

#include <cstddef>

#include "core/accelerator.h"
#include "core/tensor.h"

namespace mantissa::cuda_backend {

MANTISSA_ACCELERATOR bool is_outdated(const Graph* graph);
// The step that this thread records, if any, uses the memory at p. What kernels are given is noted by itself; this is
// for memory in whose place they are given another's, such as a cast.
MANTISSA_ACCELERATOR void note_use(const void* p);
// From now on, the recordings that use any of these bytes of device memory are outdated.
MANTISSA_ACCELERATOR void outdate_recordings(const void* p, std::size_t bytes) noexcept;
inline void outdate_recordings(const Tensor& t) {
  if (t.device().is_cuda()) outdate_recordings(t.raw_data(), static_cast<std::size_t>(t.nbytes()));
}

}  // namespace mantissa::cuda_backend
