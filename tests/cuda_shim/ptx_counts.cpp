#include "tests/cuda_shim/ptx_counts.h"

#include <cuda_runtime.h>
#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/cuda_shim/fibers.h"

namespace cuda_shim::ptx {
namespace {

struct Lane {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
};
struct Sums {
  std::uint64_t used = 0, moved = 0;  // bytes; of shared memory wavefronts: without conflicts, and all
};
struct KernelCounts {
  std::uint64_t launches = 0, threads = 0, instructions = 0;
  std::array<Sums, 3> sums;
};

// One access by the threads of a warp.
struct Request {
  Access access = Access::load;
  std::vector<Lane> lanes;
};

void add_global(const Request& r, Sums& sums) {
  std::set<std::uint64_t> sectors;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const Lane& l : r.lanes) {
    ranges.emplace_back(l.address, l.address + l.bytes);
    for (std::uint64_t s = l.address / 32; s <= (l.address + l.bytes - 1) / 32; ++s) sectors.insert(s);
  }
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t end = 0;
  for (const auto& [from, to] : ranges) {  // bytes that several lanes read count once
    sums.used += to > std::max(end, from) ? to - std::max(end, from) : 0;
    end = std::max(end, to);
  }
  sums.moved += 32 * sectors.size();
}
// Of wide accesses so many lanes at a time as take 128 bytes. A wavefront serves one word of each of 32 banks.
void add_shared(const Request& r, Sums& sums) {
  const std::size_t together = std::max<std::size_t>(1, 128 / std::max<std::uint32_t>(4, r.lanes[0].bytes));
  for (std::size_t first = 0; first < r.lanes.size(); first += together) {
    std::array<std::set<std::uint64_t>, 32> words;
    for (std::size_t k = first; k < std::min(first + together, r.lanes.size()); ++k) {
      const Lane& l = r.lanes[k];
      for (std::uint64_t w = l.address / 4; w <= (l.address + l.bytes - 1) / 4; ++w) words[w % 32].insert(w);
    }
    std::size_t most = 0;
    for (const auto& bank : words) most = std::max(most, bank.size());
    sums.used += 1;
    sums.moved += most;
  }
}

struct Key {
  const void* instruction;
  unsigned warp, times;
  bool operator==(const Key&) const = default;
};
struct Hash {
  std::size_t operator()(const Key& k) const {
    return (reinterpret_cast<std::uintptr_t>(k.instruction) * 31 + k.warp) * 1000003 + k.times;
  }
};

// What the blocks that run now have accessed so far.
struct Counter {
  std::map<std::string, KernelCounts, std::less<>> kernels;
  KernelCounts* kernel = nullptr;
  std::uint64_t block = ~std::uint64_t{0};
  std::unordered_map<Key, Request, Hash> requests;
  std::unordered_map<const void*, std::vector<unsigned>> times;  // of each thread

  void finish_block() {
    if (!kernel) return;
    for (const auto& [key, r] : requests) {
      Sums& sums = kernel->sums[static_cast<std::size_t>(r.access)];
      if (r.access == Access::shared) add_shared(r, sums);
      else add_global(r, sums);
    }
    requests.clear();
    times.clear();
  }
  void report() {
    if (kernel) finish_block();
    std::FILE* out = std::fopen(std::getenv("MANTISSA_SHIM_PTX_COUNTS"), "w");
    if (!out) return;
    std::fprintf(out, "launches  threads  instr/thread  load %%  store %%  shared %%  kernel\n");
    for (const auto& [name, k] : kernels) {
      std::fprintf(out, "%8llu %8llu %13.1f", static_cast<unsigned long long>(k.launches),
                   static_cast<unsigned long long>(k.threads),
                   static_cast<double>(k.instructions) / static_cast<double>(k.threads));
      for (std::size_t i = 0; i < 3; ++i) {
        const double used = static_cast<double>(k.sums[i].used), moved = static_cast<double>(k.sums[i].moved);
        if (moved == 0) std::fprintf(out, "        -");
        else std::fprintf(out, " %8.1f", i == 2 ? 100 * moved / used : 100 * used / moved);
      }
      char* plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr);
      std::fprintf(out, "  %s\n", plain ? plain : name.c_str());
      std::free(plain);
    }
    std::fclose(out);
  }
};
Counter& counter() {
  static Counter& all = *new Counter;  // never destroyed: late work may run at exit
  static const bool reports = std::atexit([] { counter().report(); }) == 0;
  (void)reports;
  return all;
}

}  // namespace

const bool counting = std::getenv("MANTISSA_SHIM_PTX_COUNTS") != nullptr;

void count_launch(std::string_view kernel, std::size_t threads) {
  Counter& c = counter();
  if (c.kernel) c.finish_block();
  c.block = ~std::uint64_t{0};
  auto at = c.kernels.find(kernel);
  if (at == c.kernels.end()) at = c.kernels.emplace(kernel, KernelCounts()).first;
  c.kernel = &at->second;
  ++c.kernel->launches;
  c.kernel->threads += threads;
}
void count_instructions(std::size_t executed) {
  if (KernelCounts* kernel = counter().kernel) kernel->instructions += executed;
}

void count_access(const void* instruction, Access access, std::uint64_t address, std::size_t bytes) {
  Counter& c = counter();
  const std::uint64_t block =
      (std::uint64_t{blockIdx.z} << 48) + (std::uint64_t{blockIdx.y} << 32) + blockIdx.x - own_block();
  if (block != c.block) {
    c.finish_block();
    c.block = block;
  }
  std::vector<unsigned>& times = c.times[instruction];
  times.resize(threads_together());
  Request& r = c.requests[{instruction, thread_number() / 32, times[thread_number()]++}];
  r.access = access;
  r.lanes.push_back({address, static_cast<std::uint32_t>(bytes)});
}

}  // namespace cuda_shim::ptx
