#include "core/sync_debug.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iterator>

#include "core/error.h"

namespace mantissa {
namespace {

constexpr std::string_view names[] = {"default", "warn", "error"};
std::atomic<int> chosen{0};

}  // namespace

void set_sync_debug_mode(std::string_view mode) {
  const auto at = std::ranges::find(names, mode);
  check(at != std::end(names), "set_sync_debug_mode: the mode must be \"default\", \"warn\" or \"error\", got \"", mode,
        "\"");
  chosen = static_cast<int>(at - std::begin(names));
}
std::string_view sync_debug_mode() { return names[chosen]; }

void note_host_read(Dtype dtype, const Dims& sizes, Device device) {
  const int mode = chosen.load(std::memory_order_relaxed);
  if (mode == 0) [[likely]] return;
  const std::string what = concat("the host waits for ", device, " to read ", dtype, sizes);
  check(mode != 2, what,
        ", which set_sync_debug_mode(\"error\") forbids: keep the value in a tensor on the device, or read it outside "
        "of the step");
  std::fprintf(stderr, "mantissa: %s (set_sync_debug_mode)\n", what.c_str());
}

}  // namespace mantissa
