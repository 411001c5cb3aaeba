// Streams of the user's (core/device_stream.h).
#include "core/stream_link.h"
#include "cuda/check.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {

struct ChosenStream {
  StreamScope scope;
};
ChosenStream* choose_stream(void* stream) { return new ChosenStream{StreamScope(static_cast<cudaStream_t>(stream))}; }
void leave_stream(ChosenStream* chosen) noexcept { delete chosen; }

Stream* make_stream() { return new Stream; }
void destroy_stream(Stream* stream) noexcept { delete stream; }
void* native_of(Stream* stream) { return stream->get(); }
void* this_stream() { return stream(); }
void* default_stream() { return usual_stream(); }
bool is_idle(void* stream) {
  const CaptureRelaxed relaxed;
  const cudaError_t status = cudaStreamQuery(static_cast<cudaStream_t>(stream));
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();  // as Event::reached
    return false;
  }
  check_status(status, "asking for a stream");
  return true;
}
void wait_for(void* stream) {
  check_status(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "waiting for a stream");
  throw_notes();
}

}  // namespace mantissa::cuda_backend
