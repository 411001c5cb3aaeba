// Points in a stream's work: time stamps for profiles (core/profile.h), and what other streams or the host wait for.
#include <map>
#include <memory>
#include <mutex>

#include "core/accelerator.h"
#include "core/device_link.h"
#include "core/stream_link.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {

struct Moment {
  Event event{true};
};

Moment* mark_moment(Device) {  // on the device that prepare() made current
  auto moment = std::make_unique<Moment>();
  moment->event.record();
  return moment.release();
}
void destroy_moment(Moment* moment) noexcept { delete moment; }

void run_aside(Moment* moment, const std::function<void()>& f) {
  static std::mutex mutex;
  static auto& streams = *new std::map<int, Stream>;  // one per device; never destroyed: CUDA may be gone by then
  Stream* side = nullptr;
  {
    const std::lock_guard lock(mutex);
    side = &streams[current_device()];
  }
  const StreamScope scope(side->get());
  moment->event.make_stream_wait();
  try {
    f();
  } catch (...) {
    (void)cudaStreamSynchronize(stream());  // what was launched may still write to tensors of the caller
    throw;
  }
  wait_for_stream();
}

bool is_past(Moment* moment) { return moment->event.reached(); }
void wait_for_moment(Moment* moment) { moment->event.wait(); }
void make_stream_wait(Moment* moment) { moment->event.make_stream_wait(); }

double milliseconds_between(Moment* earlier, Moment* later) {
  later->event.wait();
  return later->event.milliseconds_since(earlier->event);
}

}  // namespace mantissa::cuda_backend
