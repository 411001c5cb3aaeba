// How often this thread has read tensors back to the host (item, to_vector) since it started. On an
// accelerator each of these waits for the device; tests hold a training step to none.
#pragma once

#include <cstdint>

namespace mantissa {

std::uint64_t host_reads();

}  // namespace mantissa
