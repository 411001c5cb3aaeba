// AddressSanitizer sees of a caching allocator only what it takes from the system. These tell it which bytes of
// that belong to nobody: blocks that wait in the cache, and what lies behind the bytes that were asked for. Without
// that sanitizer they do nothing.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace mantissa {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool poisoning = true;
#else
inline constexpr bool poisoning = false;
#endif

// [p, p + bytes) must not be touched. p is aligned to 8 bytes, or follows what may be touched in its group of 8.
inline void poison([[maybe_unused]] const void* p, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(p, bytes);
#endif
}
inline void unpoison([[maybe_unused]] const void* p, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(p, bytes);
#endif
}

}  // namespace mantissa
