// Moments of a stream for profiles (core/profile.h), as events that keep the time.
#include <memory>

#include "core/accelerator.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {

struct Moment {
  Event event{true};
};

Moment* mark_moment(Device) {  // of the device that prepare() has made the current one
  auto moment = std::make_unique<Moment>();
  moment->event.record();
  return moment.release();
}
void destroy_moment(Moment* moment) noexcept { delete moment; }
double milliseconds_between(Moment* earlier, Moment* later) {
  later->event.wait();
  return later->event.milliseconds_since(earlier->event);
}

}  // namespace mantissa::cuda_backend
