// A profile as a file that draws it: https://ui.perfetto.dev and chrome://tracing open it, as what torch.profiler's
// export_chrome_trace writes. Format: Google's "Trace Event Format", complete events ("ph": "X") in microseconds.
#pragma once

#include <string>

#include "core/profile.h"

namespace mantissa::io {

// One row of boxes per thread, and one per thread and GPU for what the device did; the GPU's clock begins with its
// first operator, and is not the host's. Shapes and bytes, where they were recorded, are arguments of a box.
// Stops the profile. Written as a whole or not at all (io/file.h); throws when the system refuses.
void save_trace(const std::string& path, Profile& profile);

}  // namespace mantissa::io
