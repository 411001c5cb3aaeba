#include "core/allocator.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "core/accelerator.h"

namespace mantissa {
namespace {

constexpr std::size_t smallest = 64;
constexpr int class_count = 4 * 44;  // four per doubling, up to 2^47 bytes and beyond

// Class c holds blocks of (4 + c % 4) * 16 * 2^(c / 4) bytes: 64, 80, 96, 112, 128, 160, ...
std::size_t class_bytes(int c) { return (std::size_t{4} + c % 4) * 16 << (c / 4); }
int class_of(std::size_t bytes) {
  if (bytes <= smallest) return 0;
  const int doubling = std::bit_width(bytes - 1) - 7;  // 65..128 -> 0
  const std::size_t step = std::size_t{16} << doubling;
  const std::size_t quarters = (bytes + step - 1) / step - 4;  // 1..4
  return doubling * 4 + static_cast<int>(quarters);
}

class SystemMemory final : public RawMemory {
 public:
  void* take(std::size_t bytes) override { return std::aligned_alloc(64, (bytes + 63) / 64 * 64); }
  void give(void* p, std::size_t) noexcept override { std::free(p); }
};

}  // namespace

struct CachingAllocator::Impl {
  RawMemory& raw;
  mutable std::mutex mutex;
  struct Lists {  // what waits for one stream
    const void* stream = nullptr;
    std::vector<void*> cached[class_count];
  };
  std::vector<std::unique_ptr<Lists>> streams;  // a handful at most: searched in order
  MemoryStats stats;

  explicit Impl(RawMemory& r) : raw(r) { lists_of(nullptr); }

  Lists& lists_of(const void* stream) {
    for (auto& s : streams) if (s->stream == stream) return *s;
    streams.push_back(std::make_unique<Lists>());
    streams.back()->stream = stream;
    return *streams.back();
  }
  void release_cached() {
    for (auto& s : streams) {
      for (int c = 0; c < class_count; ++c) {
        for (void* p : s->cached[c]) {
          raw.give(p, class_bytes(c));
          stats.reserved -= static_cast<std::int64_t>(class_bytes(c));
        }
        s->cached[c].clear();
      }
    }
  }
  [[noreturn]] void fail_out_of_memory(std::size_t bytes) const {
    const std::int64_t free = raw.free_bytes();
    throw OutOfMemory(concat("out of memory", raw.place(), ": asked for ", static_cast<long long>(bytes), " bytes with ",
                             static_cast<long long>(stats.allocated), " in use by tensors, ",
                             static_cast<long long>(stats.reserved - stats.allocated), " cached and ",
                             static_cast<long long>(stats.reserved), " reserved",
                             free >= 0 ? concat(", ", static_cast<long long>(free), " free") : std::string(),
                             "; a smaller batch needs less"));
  }
};

CachingAllocator::CachingAllocator(RawMemory& raw) : impl_(new Impl(raw)) {}
CachingAllocator::~CachingAllocator() {
  impl_->release_cached();
  delete impl_;
}

std::size_t CachingAllocator::round_up(std::size_t bytes) { return class_bytes(class_of(bytes)); }

void* CachingAllocator::allocate(std::size_t bytes, const void* stream) {
  check(bytes <= std::size_t{1} << 47, "allocation of ", static_cast<unsigned long long>(bytes), " bytes is too large");
  const int c = class_of(bytes);
  const auto size = static_cast<std::int64_t>(class_bytes(c));
  Impl& m = *impl_;
  const std::lock_guard lock(m.mutex);
  void* p = nullptr;
  std::vector<void*>& cached = m.lists_of(stream).cached[c];
  if (!cached.empty()) {
    p = cached.back();
    cached.pop_back();
  } else {
    p = m.raw.take(class_bytes(c));
    if (!p) {
      m.release_cached();
      p = m.raw.take(class_bytes(c));
    }
    if (!p) m.fail_out_of_memory(bytes);
    m.stats.reserved += size;
    m.stats.peak_reserved = std::max(m.stats.peak_reserved, m.stats.reserved);
    ++m.stats.system_calls;
  }
  ++m.stats.allocations;
  m.stats.allocated += size;
  m.stats.peak_allocated = std::max(m.stats.peak_allocated, m.stats.allocated);
  return p;
}

void CachingAllocator::deallocate(void* p, std::size_t bytes, const void* stream) noexcept {
  const int c = class_of(bytes);
  Impl& m = *impl_;
  const std::lock_guard lock(m.mutex);
  m.stats.allocated -= static_cast<std::int64_t>(class_bytes(c));
  try {
    m.lists_of(stream).cached[c].push_back(p);
  } catch (...) {  // no room for the list entry: give the block back instead
    m.raw.give(p, class_bytes(c));
    m.stats.reserved -= static_cast<std::int64_t>(class_bytes(c));
  }
}

void CachingAllocator::empty_cache() {
  const std::lock_guard lock(impl_->mutex);
  impl_->release_cached();
}
MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}
void CachingAllocator::reset_peak() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stats.peak_allocated = impl_->stats.allocated;
  impl_->stats.peak_reserved = impl_->stats.reserved;
}

CachingAllocator& cpu_allocator() {
  // Never destroyed: tensors in static objects may outlive any order we could choose.
  static SystemMemory& memory = *new SystemMemory;
  static CachingAllocator& allocator = *new CachingAllocator(memory);
  return allocator;
}
MemoryStats memory_stats(Device device) {
  if (device.is_cpu()) return cpu_allocator().stats();
  return cuda_backend::prepare(&cuda_backend::memory_stats, device)(device);
}
void reset_peak_memory_stats(Device device) {
  if (device.is_cpu()) return cpu_allocator().reset_peak();
  cuda_backend::prepare(&cuda_backend::reset_peak, device)(device);
}
void empty_cache(Device device) {
  if (device.is_cpu()) return cpu_allocator().empty_cache();
  cuda_backend::prepare(&cuda_backend::empty_cache, device)(device);
}

}  // namespace mantissa
