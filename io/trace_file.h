// Profiles in a format for https://ui.perfetto.dev and chrome://tracing, as torch.profiler's export_chrome_trace
// writes. Format: Google's "Trace Event Format", complete events ("ph": "X") in microseconds.
#pragma once

#include <string>

#include "core/profile.h"

namespace mantissa::io {

// One row of events per thread, and one per thread and GPU for device work; the GPU's clock starts at its first
// operator and is not synchronised with the host's. Shapes and bytes, if recorded, are arguments of the event. Stops
// the profile. Written atomically (io/file.h); throws on system errors.
void save_trace(const std::string& path, Profile& profile);

}  // namespace mantissa::io
