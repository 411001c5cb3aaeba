// Streams and events of a GPU, as torch.Stream and torch.Event: for programs that serve a model from several threads,
// or that move data beside a computation. What a thread launches goes to its current stream, which is the device's
// default stream, one for all threads, unless an OnStream says otherwise. Work of one stream is done in order, that of
// several side by side.
//
//   DeviceStream side(cuda);
//   side.wait(current_stream(cuda));   // for x, which was made there
//   Tensor y;
//   {
//     const OnStream scope(side);      // of this thread
//     y = net(x);
//   }
//   current_stream(cuda).wait(side);   // before y is used there
//   record_stream(x, side);            // from now on x, and likewise y, may be freed on the host
//   record_stream(y, current_stream(cuda));
//
// - Work of another stream is waited for by wait (the stream waits, the host goes on) or synchronize (the host waits).
//   item(), to(cpu) and the like wait for the current stream alone.
// - Memory that is freed serves the next tensors of the stream that it was allocated on at once; another stream that
//   used it needs record_stream before.
// - backward() runs on the caller's current stream, whatever streams the forward pass ran on.
// - A captured step (jit/capture.h) is replayed as a whole on the caller's current stream. Within it, choosing streams,
//   waiting for them and record_stream are errors.
// - What a kernel finds wrong, such as an index out of range, is thrown to the first thread that waits for the device.
// - On the CPU work is done when a call returns: nothing ever waits, and events only take the time.
#pragma once

#include <memory>
#include <utility>

#include "core/device.h"

namespace mantissa {

class Tensor;
class DeviceStream;
namespace cuda_backend {
struct ChosenStream;
}

// A point in the work of a stream.
class DeviceEvent {
 public:
  explicit DeviceEvent(Device device = default_device());

  // After all work that the stream (default: the current one) has been given so far; replaces an earlier record().
  void record();
  void record(const DeviceStream& stream);
  bool is_done() const;      // true if nothing was recorded
  void synchronize() const;  // the host waits, and gets the errors of kernels
  // Milliseconds from `earlier`'s work to this one's; waits for both. Throws if one was not recorded, or if they are of
  // different devices.
  double milliseconds_since(const DeviceEvent& earlier) const;
  Device device() const { return device_; }

 private:
  friend class DeviceStream;
  struct State;
  Device device_;
  std::shared_ptr<State> state_;
};

// A handle: copies are the same stream, which ends with the last of them, after its work.
class DeviceStream {
 public:
  explicit DeviceStream(Device device = default_device());  // a new one

  // What it is given from now on waits for work given so far to another stream, or for an event. On one device or two.
  void wait(const DeviceStream& other);
  void wait(const DeviceEvent& event);
  bool is_idle() const;      // all of its work is done
  void synchronize() const;  // the host waits, and gets the errors of kernels
  Device device() const { return device_; }
  void* native() const;      // the cudaStream_t, for kernels of one's own; null on the CPU
  friend bool operator==(const DeviceStream& a, const DeviceStream& b) {
    return a.device_ == b.device_ && a.native() == b.native();
  }

 private:
  friend DeviceStream current_stream(Device device);
  friend DeviceStream default_stream(Device device);
  friend DeviceStream external_stream(void* native, Device device);
  friend class OnStream;
  struct State;
  DeviceStream(Device device, std::shared_ptr<State> state) : device_(device), state_(std::move(state)) {}
  Device device_;
  std::shared_ptr<State> state_;
};

DeviceStream current_stream(Device device = default_device());  // of this thread
DeviceStream default_stream(Device device = default_device());
// A cudaStream_t of another library, which must outlive the handle and what was allocated on it (not waited for).
DeviceStream external_stream(void* native, Device device = cuda);

// During its lifetime this thread's work for the stream's device goes to the stream. May be nested; destroy in reverse
// order, on the same thread. Throws while a step is recorded.
class OnStream {
 public:
  explicit OnStream(const DeviceStream& stream);
  ~OnStream();
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  DeviceStream stream_;
  cuda_backend::ChosenStream* chosen_ = nullptr;
};

// When x's memory is freed, it is not used again before the work that the stream has been given by then is done. For
// memory of Mantissa's own; from_blob's belongs to its owner.
void record_stream(const Tensor& x, const DeviceStream& stream);

}  // namespace mantissa
