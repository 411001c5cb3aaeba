// How often this thread has read tensors back to the host (item, to_vector) since it started. On an accelerator each
// read waits for the device; tests require that a training step makes none.
#pragma once

#include <cstdint>

namespace mantissa {

std::uint64_t host_reads();

}  // namespace mantissa
