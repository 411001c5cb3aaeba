#include "core/device_stream.h"

#include <chrono>
#include <utility>

#include "core/recording.h"
#include "core/stream_link.h"
#include "core/tensor.h"

namespace mantissa {

namespace backend = cuda_backend;
using Clock = std::chrono::steady_clock;

namespace {

void refuse_while_recording(Device device, const char* what) {
  check(device.is_cpu() || !backend::prepare(&backend::is_capturing, device)(), what,
        ": a step that is captured runs in one stream, which nothing in it can leave or wait for; use streams outside "
        "of the step");
}

}  // namespace

struct DeviceStream::State {
  void* stream = nullptr;
  backend::Stream* own = nullptr;
  bool is_side = false;
  State() = default;
  State(const State&) = delete;
  ~State() {
    if (own) backend::destroy_stream(own);
    if (is_side) --side_streams;
  }
};

struct DeviceEvent::State {
  backend::Moment* moment = nullptr;
  Clock::time_point time;  // on the CPU
  State() = default;
  State(const State&) = delete;
  ~State() {
    if (moment) backend::destroy_moment(moment);
  }
};

DeviceStream::DeviceStream(Device device) : device_(device), state_(std::make_shared<State>()) {
  if (device.is_cpu()) return;
  state_->own = backend::prepare(&backend::make_stream, device)();
  state_->stream = backend::native_of(state_->own);
  state_->is_side = true;
  ++side_streams;
}
DeviceStream current_stream(Device device) {
  const auto state = std::make_shared<DeviceStream::State>();
  if (!device.is_cpu()) state->stream = backend::prepare(&backend::this_stream, device)();
  return {device, state};
}
DeviceStream default_stream(Device device) {
  const auto state = std::make_shared<DeviceStream::State>();
  if (!device.is_cpu()) state->stream = backend::prepare(&backend::default_stream, device)();
  return {device, state};
}

DeviceStream external_stream(void* native, Device device) {
  check(!device.is_cpu() && native, "external_stream: needs a cudaStream_t that is not null, and its GPU");
  const auto state = std::make_shared<DeviceStream::State>();
  state->stream = native;
  state->is_side = true;
  ++side_streams;
  return {device, state};
}

void DeviceStream::wait(const DeviceStream& other) {
  if (other == *this) return;
  DeviceEvent so_far(other.device());
  so_far.record(other);
  wait(so_far);
}
void DeviceStream::wait(const DeviceEvent& event) {
  if (device_.is_cpu()) return event.synchronize();
  if (!event.state_ || !event.state_->moment) return;
  refuse_while_recording(device_, "DeviceStream.wait");
  const OnStream here(*this);
  backend::make_stream_wait(event.state_->moment);
}
bool DeviceStream::is_idle() const {
  return device_.is_cpu() || backend::prepare(&backend::is_idle, device_)(state_->stream);
}
void DeviceStream::synchronize() const {
  if (device_.is_cpu()) return;
  refuse_while_recording(device_, "DeviceStream.synchronize");
  backend::prepare(&backend::wait_for, device_)(state_->stream);
}
void* DeviceStream::native() const { return state_->stream; }

DeviceEvent::DeviceEvent(Device device) : device_(device) {}
void DeviceEvent::record() {
  refuse_while_recording(device_, "DeviceEvent.record");
  auto state = std::make_shared<State>();
  if (device_.is_cpu()) state->time = Clock::now();
  else state->moment = backend::prepare(&backend::mark_moment, device_)(device_);
  state_ = std::move(state);
}
void DeviceEvent::record(const DeviceStream& stream) {
  check(stream.device() == device_, "DeviceEvent.record: the event is of ", device_, " and the stream of ",
        stream.device());
  const OnStream here(stream);
  record();
}
bool DeviceEvent::is_done() const {
  return !state_ || !state_->moment || backend::prepare(&backend::is_past, device_)(state_->moment);
}
void DeviceEvent::synchronize() const {
  if (!state_ || !state_->moment) return;
  refuse_while_recording(device_, "DeviceEvent.synchronize");
  backend::prepare(&backend::wait_for_moment, device_)(state_->moment);
}
double DeviceEvent::milliseconds_since(const DeviceEvent& earlier) const {
  check(device_ == earlier.device_, "DeviceEvent.milliseconds_since: the events are of ", device_, " and ",
        earlier.device_);
  check(state_ && earlier.state_, "DeviceEvent.milliseconds_since: ", state_ ? "the earlier" : "the later",
        " event was not recorded");
  if (device_.is_cpu()) return std::chrono::duration<double, std::milli>(state_->time - earlier.state_->time).count();
  earlier.synchronize();
  synchronize();
  return backend::milliseconds_between(earlier.state_->moment, state_->moment);
}

OnStream::OnStream(const DeviceStream& stream) : stream_(stream) {
  if (stream.device().is_cpu()) return;
  refuse_while_recording(stream.device(), "OnStream");
  chosen_ = backend::prepare(&backend::choose_stream, stream.device())(stream.native());
}
OnStream::~OnStream() {
  if (chosen_) backend::leave_stream(chosen_);
}

void record_stream(const Tensor& x, const DeviceStream& stream) {
  check(x.defined(), "record_stream: the tensor is undefined");
  if (x.device().is_cpu() || stream.device().is_cpu()) return;
  refuse_while_recording(stream.device(), "record_stream");
  backend::prepare(&backend::note_stream_use, stream.device())(x.storage()->data(), stream.native());
}

}  // namespace mantissa
