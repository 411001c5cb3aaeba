// Uploads of batches. A copy from pageable host memory may make the driver, and so the host, wait for the stream; a
// copy from pinned memory never does. So data is first copied to pinned memory, piece by piece, as the driver would do
// itself, and the host continues when the last piece has been read.
#pragma once

#include <cstddef>

namespace mantissa::cuda_backend {

inline constexpr std::size_t most_staged = std::size_t{8} << 20;  // bytes of a piece

// Copies to the current device on the current stream; `from` may be overwritten after the call. Returns false without
// copying if bytes > most_staged or no pinned memory is left.
bool upload_staged(void* to, const void* from, std::size_t bytes);

}  // namespace mantissa::cuda_backend
