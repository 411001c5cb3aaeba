// Streams of the user's (core/device_stream.h).
#include "core/stream_link.h"
#include "cuda/check.h"
#include "cuda/runtime.h"
#include "cuda/stream_uses.h"

namespace mantissa::cuda_backend {

struct ChosenStream {
  StreamScope scope;
};
ChosenStream* choose_stream(void* stream) { return new ChosenStream{StreamScope(static_cast<cudaStream_t>(stream))}; }
void leave_stream(ChosenStream* chosen) noexcept { delete chosen; }

void* make_side_stream() {
  cudaStream_t s = nullptr;
  check_status(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "creating a stream");
  return s;
}
void destroy_side_stream(void* stream) noexcept {
  const auto s = static_cast<cudaStream_t>(stream);
  (void)cudaStreamSynchronize(s);  // as ~Stream
  forget_stream(s);
  (void)cudaStreamDestroy(s);
}
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
