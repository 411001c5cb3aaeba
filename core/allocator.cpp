// Small blocks are cached in exact size classes (four per power of two). Large ones, above 64 KiB, are cut from
// segments of memory, best fit, and free blocks are merged with their free neighbours. So the reserved memory stays
// close to the peak in use, whatever sizes are allocated and freed.
#include "core/allocator.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "core/accelerator.h"
#include "core/memory_limit.h"
#include "core/piece_memory.h"
#include "core/poison.h"

namespace mantissa {
namespace {

constexpr std::size_t smallest = 64;
constexpr std::size_t largest_class = 64 << 10;  // bytes; above it blocks are cut from segments
constexpr int class_count = 4 * 10 + 1;
constexpr std::size_t page = 4 << 10;
constexpr std::size_t huge_page = 2 << 20;  // segments are multiples of it

// Class c holds blocks of (4 + c % 4) * 16 * 2^(c / 4) bytes: 64, 80, 96, 112, 128, 160, ...
std::size_t class_bytes(int c) { return (std::size_t{4} + c % 4) * 16 << (c / 4); }
int class_of(std::size_t bytes) {
  if (bytes <= smallest) return 0;
  const int doubling = std::bit_width(bytes - 1) - 7;  // 65..128 -> 0
  const std::size_t step = std::size_t{16} << doubling;
  const std::size_t quarters = (bytes + step - 1) / step - 4;  // 1..4
  return doubling * 4 + static_cast<int>(quarters);
}
std::size_t round_to(std::size_t unit, std::size_t bytes) { return (bytes + unit - 1) / unit * unit; }

class SystemMemory final : public PieceMemory {
 public:
  MemoryLimit limit;
  void* take(std::size_t bytes) override {
    if (!limit.admit(bytes)) return nullptr;
    void* p = take_any(bytes);
    if (!p) limit.release(bytes);
    return p;
  }
  void give(void* p, std::size_t bytes) noexcept override {
    limit.release(bytes);
    if (bytes % huge_page) std::free(p);
    else munmap(p, bytes);
  }
  std::size_t piece() const override { return huge_page; }
  std::int64_t free_bytes() const override { return limit.exists() ? limit.left() : -1; }
  const char* place() const override { return limit.exists() ? " within set_memory_limit" : ""; }

 private:
  static void* take_any(std::size_t bytes) {
    if (bytes % huge_page) return std::aligned_alloc(64, round_to(64, bytes));
    // Mapped with slack so that it can start at a huge page boundary: the first access to such memory costs a fraction
    // of that to small pages.
    void* mapped = mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    char* const begin = static_cast<char*>(mapped);
    // The last boundary that leaves room: new mappings are placed right below older ones, so that segments can be
    // merged.
    const std::size_t before = huge_page - reinterpret_cast<std::uintptr_t>(begin) % huge_page,
                      after = huge_page - before;
    char* const p = begin + before;
    if (before) munmap(begin, before);
    if (after) munmap(p + bytes, after);
#if defined(MADV_HUGEPAGE)
    (void)madvise(p, bytes, MADV_HUGEPAGE);  // best effort
#endif
    return p;
  }
};

}  // namespace

struct CachingAllocator::Impl {
  struct Lists {  // cached small blocks of one stream
    const void* stream = nullptr;
    std::vector<void*> cached[class_count];
  };
  struct Block {  // a piece of a segment
    char* p;
    std::size_t bytes;
    const void* stream;
    bool used, first;  // the first of its segment
  };
  struct Free {
    std::size_t bytes;
    char* p;
    const void* stream;
    friend auto operator<=>(const Free&, const Free&) = default;
  };

  RawMemory& raw;
  Impl* const whole;      // counts what this one does, too
  std::size_t piece = 0;  // 0: memory is given back only as a whole (core/piece_memory.h)
  // Whether freed blocks are poisoned for AddressSanitizer. (Not device memory: work launched earlier may still use
  // it.)
  const bool poisons;
  mutable std::mutex mutex;
  std::vector<std::unique_ptr<Lists>> streams;  // a handful at most: searched in order
  Lists* last = nullptr;                        // the most recently used
  std::vector<Block> blocks;                    // of all segments, sorted by address
  std::vector<Free> free;                       // the free ones, sorted by size
  MemoryStats stats;

  Impl(RawMemory& r, Impl* w) : raw(r), whole(w), poisons(dynamic_cast<SystemMemory*>(&r)) {
    if (const auto* pieces = dynamic_cast<const PieceMemory*>(&r)) piece = pieces->piece();
    lists_of(nullptr);
  }

  Lists& lists_of(const void* stream) {
    if (last && last->stream == stream) return *last;
    return *(last = &find_lists(stream));
  }
  Lists& find_lists(const void* stream) {
    for (auto& s : streams) if (s->stream == stream) return *s;
    streams.push_back(std::make_unique<Lists>());
    streams.back()->stream = stream;
    return *streams.back();
  }

  void count_allocated(std::size_t bytes) {
    ++stats.allocations;
    stats.allocated += static_cast<std::int64_t>(bytes);
    stats.peak_allocated = std::max(stats.peak_allocated, stats.allocated);
    for_whole([=](Impl& w) { w.count_allocated(bytes); });
  }
  void count_freed(std::size_t bytes) {
    stats.allocated -= static_cast<std::int64_t>(bytes);
    for_whole([=](Impl& w) { w.count_freed(bytes); });
  }
  void count_reserved(std::size_t bytes) {
    ++stats.system_calls;
    stats.reserved += static_cast<std::int64_t>(bytes);
    stats.peak_reserved = std::max(stats.peak_reserved, stats.reserved);
    for_whole([=](Impl& w) { w.count_reserved(bytes); });
  }
  void count_returned(std::size_t bytes) {
    stats.reserved -= static_cast<std::int64_t>(bytes);
    for_whole([=](Impl& w) { w.count_returned(bytes); });
  }
  template <class F> void for_whole(F&& f) {
    if (!whole) [[likely]] return;
    const std::lock_guard lock(whole->mutex);
    f(*whole);
  }
  void give(void* p, std::size_t bytes) noexcept {
    if (poisons) unpoison(p, bytes);
    raw.give(p, bytes);
    count_returned(bytes);
  }
  // Memory from the system, emptying the cache if necessary; `wish` bytes or at least `bytes`.
  char* take(std::size_t wish, std::size_t bytes, std::size_t* got) {
    *got = wish;
    void* p = raw.take(wish);
    if (!p) {
      release_cached();
      *got = bytes;
      p = raw.take(bytes);
    }
    if (p) count_reserved(*got);
    return static_cast<char*>(p);
  }

  // --- small blocks, cached in exact size classes ---
  void* take_small(std::size_t bytes, const void* stream, std::size_t* got) {
    const int c = class_of(bytes);
    *got = class_bytes(c);
    std::vector<void*>& cached = lists_of(stream).cached[c];
    if (cached.empty()) return take(*got, *got, got);
    void* p = cached.back();
    cached.pop_back();
    return p;
  }
  std::size_t give_small(void* p, std::size_t bytes, const void* stream) noexcept {
    const int c = class_of(bytes);
    try {
      lists_of(stream).cached[c].push_back(p);
    } catch (...) {  // no memory for the list entry: give the block back instead
      give(p, class_bytes(c));
    }
    return class_bytes(c);
  }

  // --- large blocks: best fit, cut to size ---
  std::vector<Block>::iterator block_at(const char* p) {
    return std::lower_bound(blocks.begin(), blocks.end(), p, [](const Block& b, const char* q) { return b.p < q; });
  }
  void add_free(const Block& b) {
    const Free f{b.bytes, b.p, b.stream};
    free.insert(std::lower_bound(free.begin(), free.end(), f), f);
  }
  void remove_free(const Block& b) {
    free.erase(std::lower_bound(free.begin(), free.end(), Free{b.bytes, b.p, b.stream}));
  }

  // Merges a new segment with adjacent ones.
  std::vector<Block>::iterator join_segment(std::vector<Block>::iterator b) {
    const auto touches = [](const Block& one, const Block& next) { return one.p + one.bytes == next.p; };
    if (b + 1 != blocks.end() && touches(*b, b[1])) b[1].first = false;
    if (b != blocks.begin() && touches(b[-1], *b)) b->first = false;
    return join_free(b);
  }
  // Merges a block that is not (or not yet) in the free list with free neighbours of the same stream.
  std::vector<Block>::iterator join_free(std::vector<Block>::iterator b) noexcept {
    const auto joins = [](const Block& one, const Block& next) {
      return !next.first && !one.used && !next.used && one.stream == next.stream;
    };
    if (b + 1 != blocks.end() && joins(*b, b[1])) {
      remove_free(b[1]);
      b->bytes += b[1].bytes;
      blocks.erase(b + 1);
    }
    if (b != blocks.begin() && joins(b[-1], *b)) {
      --b;
      remove_free(*b);
      b->bytes += b[1].bytes;
      blocks.erase(b + 1);
    }
    return b;
  }
  void* take_large(std::size_t bytes, const void* stream, std::size_t* got) {
    bytes = round_to(page, bytes);
    free.reserve(blocks.size() + 2);  // freeing must not allocate
    auto fits = std::lower_bound(free.begin(), free.end(), Free{bytes, nullptr, nullptr});
    while (fits != free.end() && fits->stream != stream) ++fits;
    std::vector<Block>::iterator b;
    if (fits != free.end()) {
      b = block_at(fits->p);
      free.erase(fits);
    } else {
      blocks.reserve(blocks.size() + 2);
      std::size_t segment;
      const std::size_t wish = round_to(huge_page, bytes);
      char* p = take(wish, piece ? wish : bytes, &segment);
      if (!p) return nullptr;
      b = blocks.insert(block_at(p), {p, segment, stream, false, true});
      if (piece) b = join_segment(b);
    }
    b->used = true;
    if (b->bytes - bytes > largest_class) {
      const Block rest{b->p + bytes, b->bytes - bytes, stream, false, false};
      b->bytes = bytes;
      b = blocks.insert(b + 1, rest) - 1;
      add_free(rest);
    }
    *got = b->bytes;
    return b->p;
  }
  std::size_t give_large(void* p) noexcept {
    auto b = block_at(static_cast<char*>(p));
    const std::size_t bytes = b->bytes;
    b->used = false;
    add_free(*join_free(b));
    return bytes;
  }

  void release_cached() {
    for (auto& s : streams) {
      for (int c = 0; c < class_count; ++c) {
        for (void* p : s->cached[c]) give(p, class_bytes(c));
        s->cached[c].clear();
      }
    }
    for (std::size_t i = blocks.size(); i-- > 0;) {
      if (!blocks[i].used) release(i);
    }
  }
  // Gives back what is possible of a free block: a whole segment, or all whole pieces if pieces can be given back.
  void release(std::size_t i) {
    const Block b = blocks[i];
    const bool last = i + 1 == blocks.size() || blocks[i + 1].first;
    std::size_t skip = 0, bytes = b.bytes;
    if (piece) {
      skip = (piece - reinterpret_cast<std::uintptr_t>(b.p) % piece) % piece;
      bytes = b.bytes > skip ? (b.bytes - skip) / piece * piece : 0;
      if (bytes == 0) return;
    } else if (!b.first || !last) {
      return;
    }
    remove_free(b);
    give(b.p + skip, bytes);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
    const auto keep = [&](char* p, std::size_t n, bool first) {
      if (n == 0) return;
      const Block rest{p, n, b.stream, false, first};
      blocks.insert(block_at(p), rest);
      add_free(rest);
    };
    keep(b.p, skip, b.first);
    keep(b.p + skip + bytes, b.bytes - skip - bytes, true);
    const auto next = block_at(b.p + b.bytes);
    if (skip + bytes == b.bytes && next != blocks.end()) next->first = true;
  }
  [[noreturn]] void fail_out_of_memory(std::size_t bytes) const {
    const std::int64_t left = raw.free_bytes();
    throw OutOfMemory(concat("out of memory", raw.place(), ": asked for ", bytes, " bytes with ", stats.allocated,
                             " in use by tensors, ", stats.reserved - stats.allocated, " cached and ", stats.reserved,
                             " reserved", left >= 0 ? concat(", ", left, " free") : std::string(),
                             "; a smaller batch needs less"));
  }
};

CachingAllocator::CachingAllocator(RawMemory& raw, CachingAllocator* whole)
    : impl_(new Impl(raw, whole ? whole->impl_ : nullptr)) {}
CachingAllocator::~CachingAllocator() {
  impl_->release_cached();
  delete impl_;
}

std::size_t CachingAllocator::round_up(std::size_t bytes) {
  return bytes <= largest_class ? class_bytes(class_of(bytes)) : round_to(page, bytes);
}

void* CachingAllocator::allocate(std::size_t bytes, const void* stream) {
  check(bytes <= std::size_t{1} << 47, "allocation of ", bytes, " bytes is too large");
  Impl& m = *impl_;
  const std::lock_guard lock(m.mutex);
  std::size_t got = 0;
  void* p = bytes <= largest_class ? m.take_small(bytes, stream, &got) : m.take_large(bytes, stream, &got);
  if (!p) m.fail_out_of_memory(bytes);
  if (m.poisons) {
    unpoison(p, bytes);
    poison(static_cast<char*>(p) + bytes, got - bytes);
  }
  m.count_allocated(got);
  return p;
}

void CachingAllocator::deallocate(void* p, std::size_t bytes, const void* stream) noexcept {
  Impl& m = *impl_;
  const std::lock_guard lock(m.mutex);
  if (m.poisons) poison(p, bytes);
  m.count_freed(bytes <= largest_class ? m.give_small(p, bytes, stream) : m.give_large(p));
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

static SystemMemory& system_memory() {
  static SystemMemory& memory = *new SystemMemory;
  return memory;
}
CachingAllocator& cpu_allocator() {
  // Never destroyed: tensors in static objects may outlive it otherwise.
  static CachingAllocator& allocator = *new CachingAllocator(system_memory());
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
void set_memory_limit(Device device, std::int64_t bytes) {
  check(bytes >= 0, "set_memory_limit: the bytes must not be negative, got ", bytes, "; 0 is no limit");
  if (device.is_cpu()) return system_memory().limit.set(bytes);
  cuda_backend::prepare(&cuda_backend::set_memory_limit, device)(device, bytes);
}
std::string memory_summary(Device device) {
  const MemoryStats s = memory_stats(device);
  const auto row = [](const char* what, std::int64_t now, std::int64_t peak) {
    const auto mib = [](std::int64_t n) { return static_cast<double>(n) / (1 << 20); };
    return fmt::format("{:<28}{:>12.1f}{:>12.1f}\n", what, mib(now), mib(peak));
  };
  return fmt::format("{:<28}{:>12}{:>12}\n", concat("MiB of ", device), "now", "peak") +
         row("allocated (by tensors)", s.allocated, s.peak_allocated) +
         row("reserved (with the cache)", s.reserved, s.peak_reserved) +
         fmt::format("{} allocations, of which {} asked the system\n", s.allocations, s.system_calls);
}

}  // namespace mantissa
