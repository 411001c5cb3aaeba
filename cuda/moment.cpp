// Time stamps on a stream for profiles (core/profile.h): timing events.
#include <memory>

#include "core/accelerator.h"
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
double milliseconds_between(Moment* earlier, Moment* later) {
  later->event.wait();
  return later->event.milliseconds_since(earlier->event);
}

}  // namespace mantissa::cuda_backend
