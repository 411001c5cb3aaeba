// Device memory that only kernels and copies may touch, pinned memory, and copies.
#include <sys/mman.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include <unistd.h>

#include "tests/cuda_shim/runtime_parts.h"

namespace cuda_shim {
namespace {

// Of each device 64 GiB of addresses, or 4 where there are no more (valgrind). Outside of kernels and copies no page
// may be touched, so that a host that reads device memory stops at once, as it would with a GPU.
constexpr std::size_t granularity = 256;
constexpr std::size_t page = std::size_t{2} << 20;  // large ones: kernels and copies change the protection of all
struct Memory {
  char* base = nullptr;
  std::size_t space = std::size_t{64} << 30;
  std::size_t top = 0;                       // highest byte in use so far
  std::multimap<std::size_t, char*> spare;   // given back
  std::map<char*, std::size_t> blocks;       // in use
  std::size_t used = 0;
} memories[most_devices];
int access_depth = 0;
std::map<const char*, std::size_t> pinned;  // by its end

void explain_fault(int, siginfo_t* info, void*) {
  const bool device_memory = is_device_pointer(info->si_addr);
  const char* text =
      device_memory && access_depth > 0 ? "cuda_shim: a kernel or copy went beyond the device memory in use\n"
      : device_memory
          ? "cuda_shim: the host touched device memory outside of a kernel or copy\n"
          : "cuda_shim: segmentation fault (in a kernel: memory that is not there, or beyond its shared memory)\n";
  [[maybe_unused]] const auto written = write(2, text, std::strlen(text));
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
}
void open_memory(Memory& m) {
  if (m.base || !guarded) return;
  const auto map = [&] {
    return mmap(nullptr, m.space + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* p = map();
  if (p == MAP_FAILED) m.space = std::size_t{4} << 30, p = map();
  if (p == MAP_FAILED) throw std::runtime_error("cuda_shim: no address space for device memory");
  m.base = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(p) + page - 1) / page * page);
  madvise(m.base, m.space, MADV_HUGEPAGE);  // where there are none it changes nothing
  struct sigaction action{};
  action.sa_sigaction = &explain_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}
void protect(int mode) {
  for (Memory& m : memories) {
    if (m.base && m.top > 0) mprotect(m.base, (m.top + page - 1) / page * page, mode);
  }
}

}  // namespace

DeviceAccess::DeviceAccess() {
  mutex.lock();
  if (access_depth++ == 0) protect(PROT_READ | PROT_WRITE);
}
DeviceAccess::~DeviceAccess() {
  if (--access_depth == 0) protect(PROT_NONE);
  mutex.unlock();
}

bool is_out_of_reach(const char* p) {
  const auto number = reinterpret_cast<std::uintptr_t>(p);
  for (const Memory& m : memories)
    if (&m != &memories[device] && m.base && p >= m.base && p < m.base + m.space) return true;
  if (number < (std::uintptr_t{1} << 32) || number >> 47 != 0 || is_device_pointer(p)) return false;
  if (const auto at = pinned.upper_bound(p); at != pinned.end() && p >= at->first - at->second) return false;
  unsigned char there;
  return mincore(reinterpret_cast<void*>(number / 4096 * 4096), 1, &there) == 0;
}
void set_memory_limit(std::size_t bytes) { memory_limit = bytes; }
std::size_t device_bytes() {
  std::size_t n = 0;
  for (const Memory& m : memories) n += m.used;
  return n;
}
bool is_device_pointer(const void* p) {
  const char* c = static_cast<const char*>(p);
  for (const Memory& m : memories) {
    if (m.base && c >= m.base && c < m.base + m.space) return true;
  }
  return false;
}

}  // namespace cuda_shim

using namespace cuda_shim;

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (sticky != cudaSuccess) return result(sticky);
  if (const cudaError_t e = before_unsafe(); e != cudaSuccess) return result(e);
  Memory& m = memories[device];
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + granularity - 1) / granularity * granularity;
  if (m.used + size > memory_limit) return result(cudaErrorMemoryAllocation);
  char* at = nullptr;
  if (!guarded) {
    at = static_cast<char*>(std::aligned_alloc(granularity, size));
  } else {
    open_memory(m);
    if (const auto spare = m.spare.lower_bound(size); spare != m.spare.end() && spare->first == size) {
      at = spare->second;
      m.spare.erase(spare);
    } else {
      at = m.base + m.top;
      m.top += size;
    }
  }
  m.blocks[at] = size;
  m.used += size;
  *p = at;
  const DeviceAccess access;
  std::memset(at, 0xff, bytes);  // NaN: what is read before it is written shows
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (!p) return cudaSuccess;
  if (const cudaError_t e = before_unsafe(); e != cudaSuccess) return result(e);
  drain();  // as the real one, which waits for the device
  for (Memory& m : memories) {
    const auto block = m.blocks.find(static_cast<char*>(p));
    if (block == m.blocks.end()) continue;
    m.used -= block->second;
    if (guarded) m.spare.emplace(block->second, block->first);
    else std::free(block->first);
    m.blocks.erase(block);
    return cudaSuccess;
  }
  return result(cudaErrorInvalidValue);
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (const cudaError_t e = before_unsafe(); e != cudaSuccess) return result(e);
  const std::size_t size = (bytes + 4095) / 4096 * 4096;
  *p = std::aligned_alloc(4096, size);
  if (*p) pinned[static_cast<char*>(*p) + size] = size;
  return result(*p ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* p) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (!p) return cudaSuccess;
  drain();
  pinned.erase(pinned.upper_bound(static_cast<char*>(p)));
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  note_call(__func__);
  *total = memory_limit;
  *free = memory_limit - std::min(memory_limit, memories[device].used);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t s) {
  note_call(kind == cudaMemcpyDeviceToDevice ? "cudaMemcpyAsync" : "cudaMemcpyAsync from or to the host");
  const std::lock_guard lock(mutex);
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const auto wrong = [](const void* p, bool on_device) { return guarded && is_device_pointer(p) != on_device; };
  if (bytes > 0 && (wrong(to, to_device) || wrong(from, from_device))) return result(cudaErrorInvalidValue);
  if (null_device && kind == cudaMemcpyDeviceToHost) std::memset(to, 0, bytes);
  // From ordinary memory of the host, too, the bytes are read when the copy's turn comes: since CUDA 12 the call "might
  // be synchronous", and where the GPU reads ordinary memory it is not.
  return enqueue(s, [=] { std::memmove(to, from, bytes); });
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int here, int peer) {
  note_call(__func__);
  *can = here != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  note_call(__func__);
  static std::map<std::pair<int, int>, bool> enabled;
  const std::lock_guard lock(mutex);
  if (peer == device) return result(cudaErrorInvalidDevice);
  return result(std::exchange(enabled[{device, peer}], true) ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t s) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  const auto is_of = [](const void* p, int d) {
    const char* c = static_cast<const char*>(p);
    const Memory& m = memories[d];
    return !guarded || (m.base && c >= m.base && c < m.base + m.space);
  };
  if (!is_of(to, to_device) || !is_of(from, from_device)) return result(cudaErrorInvalidValue);
  return enqueue(s, [=] { std::memmove(to, from, bytes); });
}
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t s) {
  note_call(__func__);
  return enqueue(s, [=] { std::memset(p, value, bytes); });
}
