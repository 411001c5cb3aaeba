// A process group over TCP, of tensors on the CPU. Every rank has a connection to every other.
#pragma once

#include <memory>

#include "io/process_group.h"

namespace mantissa::distributed {

std::unique_ptr<ProcessGroup> make_tcp_group(const GroupOptions& options);

}  // namespace mantissa::distributed
