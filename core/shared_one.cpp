#include "core/shared_one.h"

#include <algorithm>
#include <vector>

#include "core/ops.h"
#include "core/recording.h"

namespace mantissa {
namespace {

struct One {
  Tensor tensor;
  std::uint32_t version;  // of its storage when it was made
};
std::vector<One>& ones_of_thread() {
  static thread_local std::vector<One> all;  // a device and a dtype or two
  return all;
}

}  // namespace

Tensor shared_one(Device device, Dtype dtype) {
  std::vector<One>& all = ones_of_thread();
  std::erase_if(all, [](const One& o) { return o.tensor.storage()->version() != o.version; });  // written to, after all
  const auto at = std::ranges::find_if(
      all, [&](const One& o) { return o.tensor.device() == device && o.tensor.dtype() == dtype; });
  if (at != all.end()) return at->tensor;
  const Tensor one = ones({}, {.dtype = dtype, .device = device});
  if (is_recording(device)) return one;
  wait_for_own_work(device);  // other streams of this thread may read it
  all.push_back({one, one.storage()->version()});
  return one;
}

}  // namespace mantissa
