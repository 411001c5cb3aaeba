// Blocks of device memory that streams other than their own use (core/device_stream.h: record_stream). When such a
// block is freed, it is kept until the work is done that those streams have been given by then; only then the allocator
// gets it back, and with it the next tensor of the block's own stream.
#pragma once

#include <atomic>
#include <cstddef>

#include "cuda/runtime.h"

namespace mantissa::cuda_backend {

// Noted, or freed and kept. 0 in most programs: allocating and freeing then cost a load more.
inline constinit std::atomic<int> blocks_used_elsewhere{0};

// Whether the block is kept: deallocate() is called again when it is not used any more.
bool keep_until_used(void* p, std::size_t bytes, void* pool) noexcept;
void free_used_blocks() noexcept;  // those that are not used any more
bool wait_for_used_blocks();       // waits for the uses of all kept blocks and frees them; false if there are none
void forget_stream(cudaStream_t stream) noexcept;  // its work is done

}  // namespace mantissa::cuda_backend
