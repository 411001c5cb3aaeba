// Whether modules are in the modes (training or evaluation) that they were in. What a captured step has recorded
// depends on that (jit/capture.h), and it knows no modules. Of the process.
#pragma once

#include <atomic>
#include <cstdint>

namespace mantissa {

namespace detail {
inline constinit std::atomic<std::uint64_t> changed_modes{0};
}

// Differs from before when a module has changed its mode, and is what it was when that is undone.
inline std::uint64_t modes_of_modules() { return detail::changed_modes.load(std::memory_order_relaxed); }

// The mode at this address, which has two values, has become the other: a number of its own is added, or taken away.
inline void note_mode_change(const void* mode) {
  std::uint64_t h = reinterpret_cast<std::uintptr_t>(mode) * 0x9e3779b97f4a7c15u;  // mixed as in splitmix64
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
  h = (h ^ h >> 27) * 0x94d049bb133111ebu;
  detail::changed_modes.fetch_xor(h ^ h >> 31, std::memory_order_relaxed);
}

}  // namespace mantissa
