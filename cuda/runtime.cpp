#include "cuda/runtime.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/accelerator.h"
#include "core/bags.h"
#include "core/memory_limit.h"
#include "core/poison.h"
#include "core/recorded_memory.h"
#include "cuda/check.h"
#include "cuda/launches.h"
#include "cuda/noted_messages.h"
#include "cuda/recorded_memory.h"
#include "cuda/staging.h"
#include "cuda/stream_uses.h"

namespace mantissa::cuda_backend {
namespace {

constexpr int max_devices = 16;

// Of these driver_types.h says that any further work will return the same error.
bool is_sticky(cudaError_t e) {
  switch (static_cast<int>(e)) {
    case 214: case 220: case 226: case 721: case 911:  // ECC, NVLink, contained, tensor memory, external device: by
      return true;                                     // number, since older toolkits lack some of the names
    case cudaErrorIllegalAddress: case cudaErrorLaunchTimeout: case cudaErrorAssert: case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction: case cudaErrorMisalignedAddress: case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc: case cudaErrorLaunchFailure:
      return true;
    default: return false;
  }
}
std::atomic<bool> lost{false};

struct Found {
  int count = 0;
  std::string why;
};
// CUDA reports a driver that is missing and one that is too old alike, but then says that its version is 0.
std::string why_no_driver() {
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "there is no NVIDIA driver";
  return concat("the driver supports CUDA ", version_text(driver), " and this build needs ", version_text(runtime),
                ": update the driver");
}
Found find_devices() {
  Found f;
  const cudaError_t status = cudaGetDeviceCount(&f.count);
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    f.count = 0;
    f.why = status == cudaErrorInsufficientDriver
                ? why_no_driver()
                : concat(cudaGetErrorName(status), ", ", cudaGetErrorString(status));
  }
  return f;
}
const Found& found() {
#if defined(MANTISSA_CUDA_SHIM)
  static thread_local Found f;  // tests change the devices
  f = find_devices();
#else
  static const Found f = find_devices();
#endif
  return f;
}

// Makes a device current in this thread during its lifetime.
class OnDevice {
 public:
  explicit OnDevice(int index) : before_(current_device()) {
    if (before_ == index) before_ = -1;
    else check_status(cudaSetDevice(index), "choosing the device");
  }
  ~OnDevice() { if (before_ >= 0) (void)cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;

 private:
  int before_ = -1;
};

class DeviceMemory final : public RawMemory {
 public:
  explicit DeviceMemory(int index) : index_(index), place_(concat(" on cuda:", index)) {}
  void* take(std::size_t bytes) override {
    const CaptureRelaxed relaxed;
    const OnDevice here(index_);
    if (!limit.admit(bytes)) return nullptr;
    void* p = nullptr;
    const cudaError_t status = cudaMalloc(&p, bytes);
    if (status == cudaSuccess) return p;
    limit.release(bytes);
    if (status != cudaErrorMemoryAllocation) fail_status(status, "cudaMalloc");
    (void)cudaGetLastError();  // clear the error: running out of memory is not fatal
    return nullptr;
  }
  void give(void* p, std::size_t bytes) noexcept override {
    const CaptureRelaxed relaxed;
    limit.release(bytes);
    (void)cudaFree(p);
  }
  const char* place() const override { return limit.exists() ? place_within_.c_str() : place_.c_str(); }
  std::int64_t free_bytes() const override {
    const OnDevice here(index_);
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return -1;
    return limit.exists() ? std::min(static_cast<std::int64_t>(free), limit.left()) : static_cast<std::int64_t>(free);
  }
  MemoryLimit limit;

 private:
  int index_;
  std::string place_, place_within_ = place_ + " within set_memory_limit";
};
class PinnedMemory final : public RawMemory {
 public:
  void* take(std::size_t bytes) override {
    const CaptureRelaxed relaxed;
    void* p = nullptr;
    if (cudaMallocHost(&p, bytes) == cudaSuccess) return p;
    (void)cudaGetLastError();
    return nullptr;
  }
  void give(void* p, std::size_t) noexcept override {
    const CaptureRelaxed relaxed;
    (void)cudaFreeHost(p);
  }
  const char* place() const override { return " for pinned host memory"; }
};
// Memory given back by an arena is kept until the arena dies: a captured graph may use it.
class ArenaMemory final : public RawMemory {
 public:
  explicit ArenaMemory(DeviceMemory& device) : device_(device) {}
  ~ArenaMemory() override {
    for (const auto& [p, bytes] : given_) device_.give(p, bytes);
  }
  void* take(std::size_t bytes) override {
    taken_.push_back({nullptr, bytes});
    return taken_.back().first = device_.take(bytes);
  }
  void give(void* p, std::size_t bytes) noexcept override {
    try {
      given_.push_back({p, bytes});
    } catch (...) {  // leaked: better than reusing memory that a graph writes
    }
  }
  void fill_with_zeros() noexcept {
    for (const auto& [p, bytes] : taken_) if (p) (void)cudaMemsetAsync(p, 0, bytes, stream());
  }
  bool contains(const void* p) const {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    return std::ranges::any_of(taken_, [at](const auto& part) {
      const auto begin = reinterpret_cast<std::uintptr_t>(part.first);
      return at >= begin && at - begin < part.second;
    });
  }
  const char* place() const override { return device_.place(); }
  std::int64_t free_bytes() const override { return device_.free_bytes(); }

 private:
  DeviceMemory& device_;
  std::vector<std::pair<void*, std::size_t>> taken_, given_;
};

struct PerDevice {
  explicit PerDevice(int index) : memory(index), allocator(memory) {
    check_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    check_status(cudaMallocHost(reinterpret_cast<void**>(&note), sizeof(Note)), "allocating pinned memory");
    std::memset(note, 0, sizeof(Note));
    (void)cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, index);
    int major = 0, minor = 0;
    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
    capability = 10 * major + minor;
  }
  DeviceMemory memory;
  CachingAllocator allocator;
  cudaStream_t stream = nullptr;
  Note* note = nullptr;
  int multiprocessors = 1, capability = 0;
  std::mutex mutex;
  std::vector<std::unique_ptr<Pool>> pools;  // one per stream that memory was allocated for
};

PerDevice& device_state(int index) {
  static std::mutex mutex;
  static std::atomic<PerDevice*> devices[max_devices];  // never destroyed: tensors may outlive static objects
  if (PerDevice* d = devices[index].load(std::memory_order_acquire)) return *d;
  const std::lock_guard lock(mutex);
  const OnDevice here(index);  // this device gets the stream, even if another device's statistics are requested first
  if (!devices[index].load()) devices[index].store(new PerDevice(index), std::memory_order_release);
  return *devices[index].load();
}

thread_local int device = -1;  // the last argument of cudaSetDevice
thread_local std::array<cudaStream_t, max_devices> chosen_streams{};  // by StreamScopes; null: the device's own
thread_local cudaStream_t stream_here = nullptr;                      // the current one of `device`, once known
thread_local Pool* last_pool = nullptr;  // pool of the latest allocation
thread_local Pool* arena_pool = nullptr;
thread_local const std::uint64_t* random_state = nullptr;
thread_local std::uint64_t random_seed = 0;
thread_local std::uint64_t random_first = 0;

bool wait_after_launches() {
  static const bool wish = [] {
    const char* text = std::getenv("MANTISSA_CUDA_SYNC");
    return text && std::strcmp(text, "1") == 0;
  }();
  return wish;
}

}  // namespace

// The source of a block of device memory, to which it returns.
struct Pool {
  CachingAllocator* allocator = nullptr;
  const void* stream = nullptr;
  int device = 0;
  std::unique_ptr<RawMemory> memory;      // for an arena
  std::unique_ptr<CachingAllocator> own;  // for an arena, in that memory
  std::atomic<std::int64_t> users{0};     // blocks in use of an arena, plus 1 while the Arena lives
};

namespace {

// Pools live until the process ends, so a thread may cache its last one without a lock.
Pool* find_pool(int index, cudaStream_t s) {
  PerDevice& d = device_state(index);
  const std::lock_guard lock(d.mutex);
  for (auto& p : d.pools) if (p->stream == s) return p.get();
  auto p = std::make_unique<Pool>();
  p->allocator = &d.allocator;
  p->stream = s;
  p->device = index;
  d.pools.push_back(std::move(p));
  return d.pools.back().get();
}
Pool* pool_for(int index, cudaStream_t s) {
  if (!last_pool || last_pool->device != index || last_pool->stream != s) [[unlikely]] last_pool = find_pool(index, s);
  return last_pool;
}
void let_go(Pool* arena) noexcept {
  if (arena->users.fetch_sub(1) == 1) delete arena;
}

}  // namespace

// --- errors ---
void fail_status(cudaError_t status, const char* what) {
  (void)cudaGetLastError();
  if (is_sticky(status)) {
    if (lost.exchange(true)) fail(what, ": the GPU was lost to an earlier error of this process; restart it");
    fail(
        what, ": ", cudaGetErrorName(status), " (", cudaGetErrorString(status),
        "). A kernel launched before this failed, and the process has lost its GPU: what was computed since the host "
        "last waited cannot be trusted. Restart from a checkpoint; MANTISSA_CUDA_SYNC=1 finds the kernel");
  }
  if (status == cudaErrorNoKernelImageForDevice) {
    fail(what, ": this build has no code for a GPU of compute capability ", compute_capability() / 10, ".",
         compute_capability() % 10, "; configure with -DCMAKE_CUDA_ARCHITECTURES=", compute_capability());
  }
  if (status == cudaErrorStreamCaptureUnsupported) {
    fail(what, ": a step that is being captured cannot wait for the GPU or read a tensor on the host");
  }
  fail(what, ": ", cudaGetErrorName(status), " (", cudaGetErrorString(status), ")");
}

Note* note() { return device_state(current_device()).note; }
void throw_notes() {
  Note& shared = *device_state(current_device()).note;
  if (!shared.set) [[likely]] return;
  const Note n = shared;
  shared.set = 0;
  if (n.kind == 1) {
    fail("label ", n.value, " at position ", n.position, " of the target is out of range for ", n.size,
         " classes (found by a kernel that ran earlier)");
  }
  check(n.kind != 2, "roi_align: the region of box ", n.value,
        " is not finite, or too large (found by a kernel that ran earlier)");
  check(n.kind != 4, n.kind == 4 ? noted_message(n.value) : "", ": element ", n.position, " of ", n.size,
        " (found by a kernel that ran earlier)");
  check(n.kind != 3, "embedding_bag: ", wrong_offsets, n.size, "; bag ", n.position, " begins at ", n.value,
        " (found by a kernel that ran earlier)");
  fail("index ", n.value, " is out of range for a dimension of size ", n.size, " (found by a kernel that ran earlier)");
}

namespace {
thread_local LaunchCounter* counter = nullptr;
}
LaunchCounter::LaunchCounter() : before_(std::exchange(counter, this)) {}
LaunchCounter::~LaunchCounter() { counter = before_; }

std::size_t most_shared() {
  int most = 0;
  check_status(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, current_device()),
               "asking for the size of shared memory");
  return static_cast<std::size_t>(most);
}

namespace {

// Throws if that many bytes of shared memory exceed the limit per block of this GPU.
void refuse_shared(std::size_t bytes, const char* kernel, int index) {
  const std::size_t most = most_shared();
  if (bytes <= most) return;
  (void)cudaGetLastError();  // clear the error, so that no later launch reports it
  check(false, kernel, ": a block of this kernel needs ", (bytes + 1023) / 1024,
        " KiB of shared memory, and cuda:", index, " has ", most / 1024,
        " KiB; f16 or bf16 (autocast) instead of f32, or narrower heads or rows, need less");
}

}  // namespace

void allow_shared(const void* kernel, std::size_t bytes, const char* name) {
  struct Allowed {
    const void* kernel;
    int device;
    std::size_t bytes;
  };
  static std::mutex mutex;
  static std::vector<Allowed>& all = *new std::vector<Allowed>;  // a few dozen
  const int here = current_device();
  const std::lock_guard lock(mutex);
  const auto at = std::ranges::find_if(all, [=](const Allowed& a) { return a.kernel == kernel && a.device == here; });
  if (at != all.end() && at->bytes >= bytes) return;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status == cudaErrorInvalidValue) refuse_shared(bytes, name, here);
  check_status(status, name);
  if (at != all.end()) at->bytes = bytes;
  else all.push_back({kernel, here, bytes});
}

void after_launch(const char* kernel, cudaError_t status) {
  if (counter) [[unlikely]] ++counter->launches[kernel];
  check_status(status, kernel);
  after_library_call(kernel);
}

void after_library_call(const char* what) {
  if (!wait_after_launches() || is_capturing()) [[likely]] return;
  check_status(cudaStreamSynchronize(stream()), what);
  throw_notes();
}

// --- devices and streams ---
int device_count() { return found().count; }
const char* why_no_device() { return found().why.c_str(); }

void activate(Device d) {
  if (device == d.index) [[likely]] return;
  const Found& f = found();
  check(f.count > 0, "no GPU can be used: ", f.why);
  check(d.index < f.count && d.index < max_devices, "there is no device ", d, ": this machine has ", f.count,
        f.count == 1 ? " GPU" : " GPUs");
  check_status(cudaSetDevice(d.index), "choosing the device");
  device = d.index;
  stream_here = nullptr;
}
int current_device() {
  if (device < 0) activate(cuda);
  return device;
}
cudaStream_t usual_stream() { return device_state(current_device()).stream; }
cudaStream_t stream() {
  if (!stream_here) [[unlikely]] {
    const cudaStream_t chosen = chosen_streams[static_cast<std::size_t>(current_device())];
    stream_here = chosen ? chosen : usual_stream();
  }
  return stream_here;
}

bool records_here() { return random_state != nullptr; }
bool is_capturing() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_status(cudaStreamIsCapturing(stream(), &status), "asking for a capture");
  return status != cudaStreamCaptureStatusNone;
}
void wait_for_stream() {
  check_status(cudaStreamSynchronize(stream()), "waiting for the GPU");
  throw_notes();
}
void synchronize(Device) {
  check_status(cudaDeviceSynchronize(), "waiting for the GPU");
  throw_notes();
}

Stream::Stream() {
  current_device();
  check_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}
Stream::~Stream() {  // the next stream may get its address, and with it cached blocks still in use
  (void)cudaStreamSynchronize(stream_);
  forget_stream(stream_);
  (void)cudaStreamDestroy(stream_);
}
void Stream::wait() { check_status(cudaStreamSynchronize(stream_), "waiting for a stream"); }

StreamScope::StreamScope(cudaStream_t s)
    : device_(current_device()), before_(std::exchange(chosen_streams[static_cast<std::size_t>(device_)], s)) {
  stream_here = nullptr;
}
StreamScope::~StreamScope() {
  chosen_streams[static_cast<std::size_t>(device_)] = before_;
  stream_here = nullptr;
}

Event::Event(bool timed) {
  current_device();
  check_status(cudaEventCreateWithFlags(&event_, timed ? 0 : cudaEventDisableTiming), "creating an event");
}
Event::~Event() { (void)cudaEventDestroy(event_); }
void Event::record() { check_status(cudaEventRecord(event_, mantissa::cuda_backend::stream()), "recording an event"); }
void Event::make_stream_wait() {
  check_status(cudaStreamWaitEvent(mantissa::cuda_backend::stream(), event_, 0), "waiting for an event");
}
bool Event::reached() const {
  const CaptureRelaxed relaxed;
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();  // cudaErrorNotReady stays as the last error: the next launch would report it
    return false;
  }
  check_status(status, "asking for an event");
  return true;
}
void Event::wait() {
  check_status(cudaEventSynchronize(event_), "waiting for an event");
  throw_notes();
}
float Event::milliseconds_since(const Event& earlier) const {
  float ms = 0;
  check_status(cudaEventElapsedTime(&ms, earlier.event_, event_), "timing events");
  return ms;
}

int multiprocessors() { return device_state(current_device()).multiprocessors; }
int compute_capability() { return device_state(current_device()).capability; }
std::string version_text(int of_cuda) { return concat(of_cuda / 1000, ".", of_cuda % 1000 / 10); }

// --- memory ---
namespace {
// Off when the shim defers work: pending kernels may still write to blocks that the host has already reused.
const bool poisons = poisoning && !std::getenv("MANTISSA_SHIM_LATE");
}  // namespace

static void* take_from(Pool& pool, std::size_t bytes) {
  try {
    return pool.allocator->allocate(bytes, pool.stream);
  } catch (const OutOfMemory&) {
    if (!wait_for_used_blocks()) throw;
  }
  return pool.allocator->allocate(bytes, pool.stream);
}
void* allocate(std::size_t bytes, Device d, void** pool) {
  Pool* from = arena_pool && arena_pool->device == d.index ? arena_pool : pool_for(d.index, stream());
  if (blocks_used_elsewhere.load(std::memory_order_relaxed) > 0) [[unlikely]] free_used_blocks();
  void* p = take_from(*from, bytes);
  if (from->own) from->users.fetch_add(1);
  else if (poisons) poison(static_cast<char*>(p) + bytes, CachingAllocator::round_up(bytes) - bytes);
  *pool = from;
  return p;
}
void empty_cache(Device d) {
  if (blocks_used_elsewhere.load(std::memory_order_relaxed) > 0) free_used_blocks();
  device_state(d.index).allocator.empty_cache();
}
void deallocate(void* p, std::size_t bytes, void* pool) noexcept {
  if (blocks_used_elsewhere.load(std::memory_order_relaxed) > 0 && keep_until_used(p, bytes, pool)) [[unlikely]] return;
  auto* to = static_cast<Pool*>(pool);
  if (recordings.load(std::memory_order_relaxed) > 0) [[unlikely]] {
    if (to != arena_pool) outdate_recordings(p, bytes);  // what a step makes and frees while it is recorded is its own
  }
  if (poisons && !to->own) unpoison(p, CachingAllocator::round_up(bytes));
  to->allocator->deallocate(p, bytes, to->stream);
  if (to->own) let_go(to);
}
MemoryStats memory_stats(Device d) { return device_state(d.index).allocator.stats(); }
void reset_peak(Device d) { device_state(d.index).allocator.reset_peak(); }
void set_memory_limit(Device d, std::int64_t bytes) { device_state(d.index).memory.limit.set(bytes); }

CachingAllocator& pinned_allocator() {
  static PinnedMemory& memory = *new PinnedMemory;
  static CachingAllocator& allocator = *new CachingAllocator(memory);
  return allocator;
}
void* allocate_pinned(std::size_t bytes) { return pinned_allocator().allocate(bytes); }
void deallocate_pinned(void* p, std::size_t bytes) noexcept { pinned_allocator().deallocate(p, bytes); }

Arena::Arena() : pool_(new Pool) {
  PerDevice& d = device_state(current_device());
  pool_->memory = std::make_unique<ArenaMemory>(d.memory);
  pool_->own = std::make_unique<CachingAllocator>(*pool_->memory, &d.allocator);
  pool_->allocator = pool_->own.get();
  pool_->device = current_device();
  pool_->users = 1;
}
Arena::~Arena() { let_go(pool_); }
MemoryStats Arena::stats() const { return pool_->own->stats(); }
bool Arena::contains(const void* p) const { return static_cast<ArenaMemory&>(*pool_->memory).contains(p); }
void Arena::fill_with_zeros() noexcept { static_cast<ArenaMemory&>(*pool_->memory).fill_with_zeros(); }
ArenaScope::ArenaScope(Arena& arena) : before_(arena_pool) { arena_pool = arena.pool_; }
ArenaScope::~ArenaScope() { arena_pool = before_; }

void check_can_copy_to_or_from_host() {
  check(
      !is_capturing(),
      "a step that is captured must not copy between host and device: it read a value of a tensor (item, to_vector, "
      "printing) or made a tensor from host data. Move that out of the step, or keep it in a tensor on the device");
}
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  if (bytes == 0) return;
  if (!(to_device == from_device)) check_can_copy_to_or_from_host();
  if (from_device.is_cpu()) {
    while (const std::size_t part = std::min(bytes, most_staged)) {
      if (!upload_staged(to, from, part)) break;
      to = static_cast<char*>(to) + part, from = static_cast<const char*>(from) + part, bytes -= part;
    }
    if (bytes == 0) return;
  }
  const cudaMemcpyKind kind = to_device.is_cpu()     ? cudaMemcpyDeviceToHost
                              : from_device.is_cpu() ? cudaMemcpyHostToDevice
                                                     : cudaMemcpyDeviceToDevice;
  check_status(cudaMemcpyAsync(to, from, bytes, kind, stream()), "copying");
  // Also for pageable host memory: the call "might be synchronous" (CUDA's "API synchronization behavior"), but need
  // not be if the GPU can access that memory directly.
  if (to_device.is_cpu() || from_device.is_cpu()) wait_for_stream();
}

// --- random numbers ---
void set_random_state(const std::uint64_t* state, std::uint64_t seed, std::uint64_t first_offset) {
  random_state = state;
  random_seed = seed;
  random_first = first_offset;
}
RandomPosition random_position(std::uint64_t seed, std::uint64_t offset) {
  if (!random_state) return {seed, offset, nullptr};
  check(seed == random_seed,
        "random numbers of another seed cannot be part of a step that is captured, since every run of it goes on in "
        "those of the one before: manual_seed and RandomScope belong outside of the step");
  return {seed, offset - random_first, random_state};
}

}  // namespace mantissa::cuda_backend
