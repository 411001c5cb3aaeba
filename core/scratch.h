// ScratchVector<T>: a std::vector for temporaries of a kernel, in memory of the caching allocator, so that steady work
// makes no calls to malloc.
#pragma once

#include <cstddef>
#include <vector>

#include "core/allocator.h"

namespace mantissa {

template <class T> struct CachedMemory {
  using value_type = T;
  CachedMemory() = default;
  template <class U> CachedMemory(const CachedMemory<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(cpu_allocator().allocate(n * sizeof(T))); }
  void deallocate(T* p, std::size_t n) noexcept { cpu_allocator().deallocate(p, n * sizeof(T)); }
  template <class U> bool operator==(const CachedMemory<U>&) const { return true; }
};
template <class T> using ScratchVector = std::vector<T, CachedMemory<T>>;

}  // namespace mantissa
