// What core/device_stream.cpp asks of the CUDA backend (cuda/streams.cpp, cuda/moment.cpp). As in core/accelerator.h,
// the functions are null in a program without it. A stream is a cudaStream_t; prepare() has made its device current.
#pragma once

#include <atomic>

#include "core/recording.h"

namespace mantissa {

// Streams beside the default ones: where there are any, what threads share must be ready before others see it.
inline constinit std::atomic<int> side_streams{0};

namespace cuda_backend {

class Stream;
MANTISSA_ACCELERATOR Stream* make_stream();
MANTISSA_ACCELERATOR void destroy_stream(Stream* stream) noexcept;  // after its work
MANTISSA_ACCELERATOR void* native_of(Stream* stream);
MANTISSA_ACCELERATOR void* this_stream();                           // the current one
MANTISSA_ACCELERATOR void* default_stream();
MANTISSA_ACCELERATOR bool is_idle(void* stream);
MANTISSA_ACCELERATOR void wait_for(void* stream);  // throws errors that kernels reported

// While it exists, the stream is the current one.
struct ChosenStream;
MANTISSA_ACCELERATOR ChosenStream* choose_stream(void* stream);
MANTISSA_ACCELERATOR void leave_stream(ChosenStream* chosen) noexcept;

MANTISSA_ACCELERATOR bool is_past(Moment* moment);
MANTISSA_ACCELERATOR void wait_for_moment(Moment* moment);
MANTISSA_ACCELERATOR void make_stream_wait(Moment* moment);  // the current one

// The block of device memory must not serve others after it is freed before the work is done that the stream has then.
MANTISSA_ACCELERATOR void note_stream_use(const void* block, void* stream);

}  // namespace cuda_backend

// For what is computed once and then read by whoever asks: waits for this thread's work if others have streams.
inline void make_ready_for_all_streams(Device d) {
  if (side_streams.load(std::memory_order_relaxed) > 0 && !is_recording(d)) wait_for_own_work(d);
}

}  // namespace mantissa
