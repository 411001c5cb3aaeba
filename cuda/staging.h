// Batches on their way to the device. From ordinary host memory the driver may wait for the stream before it copies,
// and the host with it; from pinned memory it never does. So what is not too large is copied to pinned memory first, as
// the driver would do itself, and the host goes on at once.
#pragma once

#include <cstddef>

namespace mantissa::cuda_backend {

inline constexpr std::size_t most_staged = std::size_t{32} << 20;  // bytes

// Copies to the current device on the current stream; `from` may be overwritten when this returns. False, and nothing
// is done, where there are more bytes than most_staged or no pinned memory is left.
bool upload_staged(void* to, const void* from, std::size_t bytes);

}  // namespace mantissa::cuda_backend
