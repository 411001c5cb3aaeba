// Finds what makes the host wait for a GPU without saying so, as torch.cuda.set_sync_debug_mode: reading a tensor by
// item(), to(cpu), a condition or print, and operators whose results have sizes that depend on values (nonzero). In a
// training step such a wait leaves the GPU idle while the host prepares what comes next.
//
//   set_sync_debug_mode("error");   // after the first steps, which make things that are read once
//   train_step();                   // throws where it reads a tensor; a debugger's "catch throw" shows from where
//   set_sync_debug_mode("default");
//
// Of the process. What waits by name is not meant: synchronize, DeviceStream and DeviceEvent.
#pragma once

#include <string_view>

#include "core/device.h"
#include "core/dims.h"
#include "core/dtype.h"

namespace mantissa {

// "default": nothing is said, "warn": a line on stderr for each wait, "error": it throws instead. Throws for others.
void set_sync_debug_mode(std::string_view mode);
std::string_view sync_debug_mode();

// For backends, before the host reads a tensor of such dtype and sizes.
void note_host_read(Dtype dtype, const Dims& sizes, Device device);

}  // namespace mantissa
