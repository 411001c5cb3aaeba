// A process group over TCP, for CPU tensors. Every rank is connected to every other.
#pragma once

#include <memory>

#include "io/process_group.h"

namespace mantissa::distributed {

std::unique_ptr<ProcessGroup> make_tcp_group(const GroupOptions& options);

}  // namespace mantissa::distributed
