// A direct connection between the GPUs of several processes: what io/device_collectives.h is made of. Implemented by
// NCCL (cuda/library/nccl.cpp). As in core/accelerator.h the functions are null in a program without the CUDA backend.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/accelerator.h"

namespace mantissa {

class DeviceLink {
 public:
  struct Part {  // of device memory, to or from another rank
    void* data;
    std::size_t bytes;
    int rank;
  };
  virtual ~DeviceLink() = default;
  // All transfers at once, after what this thread has given its GPU; returns when they are done. Between two ranks
  // parts arrive in the order in which they were sent, with the sizes that are expected. After an error the link is of
  // no use.
  virtual void exchange(std::span<const Part> sends, std::span<const Part> receives) = 0;
};

namespace cuda_backend {

// Runs f, whose launches come after the moment and beside all later ones: on a second stream of that device. Returns
// when they are done.
MANTISSA_ACCELERATOR void run_aside(Moment* moment, const std::function<void()>& f);

// Ranks can be connected if all have the same version of NCCL ("2.28.4"; empty: none), and each has a GPU of its own.
MANTISSA_ACCELERATOR std::string nccl_version();
MANTISSA_ACCELERATOR std::string identity_of(Device gpu);  // which it is among all machines'
// What the first rank gives all others to find each other.
inline constexpr std::size_t link_name_bytes = 128;
MANTISSA_ACCELERATOR std::string new_link_name();
// Returns when all ranks have called it. waiting(): called again and again while this or an exchange waits for other
// ranks; throws to give up.
MANTISSA_ACCELERATOR std::unique_ptr<DeviceLink> make_link(Device device, const std::string& name, int rank, int size,
                                                           std::function<void()> waiting);

}  // namespace cuda_backend
}  // namespace mantissa
