// For a caching allocator, AddressSanitizer knows only the memory it takes from the system. These functions tell it
// which bytes of that are not in use: cached blocks, and the padding after the bytes that were requested. Without
// AddressSanitizer they do nothing.
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

// [p, p + bytes) must not be accessed. p is aligned to 8 bytes, or the accessible bytes of its group of 8 precede it.
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
