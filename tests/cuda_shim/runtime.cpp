// The runtime's calls on the CPU: device memory that only kernels and copies may touch, streams as
// queues of functions, events, captured graphs, errors. Work is done at once, or, when a test asks for
// it, as late as a real device might do it and in an order that only streams and events restrain.
#include <sys/mman.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "tests/cuda_shim/shim.h"
#include "tests/cuda_shim/tensor_map.h"

struct cuda_shim_event {
  int device = 0;
  std::uint64_t recorded = 0, done = 0;  // how often asked for, how often reached
  std::chrono::steady_clock::time_point time;
};
struct cuda_shim_graph {
  std::vector<std::function<void()>> work;
};
struct cuda_shim_stream {
  int device = 0;
  struct Task {
    std::function<bool()> ready;  // empty: always
    std::function<void()> work;
  };
  std::deque<Task> tasks;
  cuda_shim_graph* capture = nullptr;
  std::thread::id by;    // who captures
  bool spoiled = false;  // the capture: something was called that may not be
};

namespace cuda_shim {
namespace {

std::recursive_mutex mutex;  // one launch, one copy at a time
int device_count = 1;
thread_local int device = 0;
thread_local cudaError_t last_error = cudaSuccess;
cudaError_t sticky = cudaSuccess, planned = cudaSuccess;
std::map<cudaError_t, std::string> explanations;  // of the last error of a kind: a kernel that failed, a launch refused
std::size_t limit = std::size_t{1} << 30;
thread_local CallCounter* counter = nullptr;
std::uint64_t launch_count = 0;
const char* const late_seed = std::getenv("MANTISSA_SHIM_LATE");
bool late = late_seed != nullptr;
std::mt19937 random_order{late_seed ? static_cast<unsigned>(std::atoi(late_seed)) : 1u};
std::map<const char*, std::size_t> pinned;  // by its end
std::map<std::pair<int, const void*>, std::size_t> allowed_shared;  // cudaFuncSetAttribute, per device
// never destroyed: it holds what work is left
std::vector<cuda_shim_stream*>& streams = *new std::vector<cuda_shim_stream*>;
cuda_shim_stream default_streams[4];

// --- device memory ---
// Of each device 64 GiB of addresses, or 4 where there are no more (valgrind). Outside of kernels and copies no page
// may be touched, so that a host that reads device memory stops at once, as it would with a GPU. Under AddressSanitizer
// every allocation is an ordinary one instead: there reading beyond its end is what is looked for.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool guarded = false;
#else
constexpr bool guarded = true;
#endif
constexpr std::size_t granularity = 256;
struct Memory {
  char* base = nullptr;
  std::size_t space = std::size_t{64} << 30;
  std::size_t top = 0;                       // highest byte in use so far
  std::multimap<std::size_t, char*> spare;   // given back
  std::map<char*, std::size_t> blocks;       // in use
  std::size_t used = 0;
} memories[4];
int access_depth = 0;

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
    return mmap(nullptr, m.space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* p = map();
  if (p == MAP_FAILED) m.space = std::size_t{4} << 30, p = map();
  if (p == MAP_FAILED) throw std::runtime_error("cuda_shim: no address space for device memory");
  m.base = static_cast<char*>(p);
  struct sigaction action{};
  action.sa_sigaction = &explain_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}
void protect(int mode) {
  for (Memory& m : memories) {
    if (m.base && m.top > 0) mprotect(m.base, (m.top + 4095) / 4096 * 4096, mode);
  }
}

// --- streams ---
cuda_shim_stream& stream_of(cudaStream_t s) {
  if (s) return *s;
  default_streams[device].device = device;
  return default_streams[device];
}
std::vector<cuda_shim_stream*> all_streams() {
  std::vector<cuda_shim_stream*> all = streams;
  for (auto& s : default_streams) all.push_back(&s);
  return all;
}
bool runnable(const cuda_shim_stream& s) {
  return !s.tasks.empty() && (!s.tasks.front().ready || s.tasks.front().ready());
}
void run_front(cuda_shim_stream& s) {
  auto task = std::move(s.tasks.front());
  s.tasks.pop_front();
  if (task.work) task.work();
}
// Runs tasks of all streams, in an order of its own, until done() is true.
template <class Done> void run_until(Done&& done) {
  while (!done()) {
    std::vector<cuda_shim_stream*> able;
    for (cuda_shim_stream* s : all_streams()) if (runnable(*s)) able.push_back(s);
    if (able.empty()) throw std::runtime_error("cuda_shim: streams wait for events that nobody records");
    run_front(*able[random_order() % able.size()]);
  }
}
void drain() {
  run_until([] {
    for (cuda_shim_stream* s : all_streams()) if (!s->tasks.empty()) return false;
    return true;
  });
}

cudaError_t result(cudaError_t e) {
  if (e != cudaSuccess) last_error = e;  // as the real one, also cudaErrorNotReady
  return e;
}
bool any_capture() {
  for (cuda_shim_stream* s : all_streams()) if (s->capture) return true;
  return false;
}
// Allocating or asking for events: a thread that captures may not, unless it says that it knows what it does.
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
cudaError_t before_unsafe() {
  if (capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (cuda_shim_stream* s : all_streams()) {
    if (!s->capture || s->by != std::this_thread::get_id()) continue;
    s->spoiled = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}
// Waiting is what a capture cannot record; and after a sticky error nothing works any more.
cudaError_t before_waiting() {
  if (sticky != cudaSuccess) return sticky;
  return any_capture() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

// A kernel or copy; what goes wrong in it stays with the device, as on a GPU.
void run_guarded(const std::function<void()>& work) {
  if (sticky != cudaSuccess) return;
  const DeviceAccess access;
  try {
    work();
  } catch (const std::exception& e) {
    const auto* fault = dynamic_cast<const Fault*>(&e);
    sticky = fault ? fault->error : cudaErrorLaunchFailure;
    explanations[sticky] = e.what();
    std::fprintf(stderr, "%s\n", e.what());
  }
}

}  // namespace

CallCounter::CallCounter() : before_(std::exchange(counter, this)) {}
CallCounter::~CallCounter() { counter = before_; }
void note_call(const char* name) {
  if (counter) [[unlikely]] ++counter->calls[name];
}

bool null_device = false;
void set_null_device(bool on) {
  const std::lock_guard lock(mutex);
  drain();
  null_device = on;
}

DeviceAccess::DeviceAccess() {
  mutex.lock();
  if (access_depth++ == 0) protect(PROT_READ | PROT_WRITE);
}
DeviceAccess::~DeviceAccess() {
  if (--access_depth == 0) protect(PROT_NONE);
  mutex.unlock();
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  if (null_device) return cudaSuccess;
  const std::lock_guard lock(mutex);
  if (sticky != cudaSuccess) return result(sticky);
  cuda_shim_stream& s = stream_of(stream);
  if (s.capture) {
    s.capture->work.push_back(std::move(work));
  } else {
    s.tasks.push_back({{}, [work = std::move(work)] { run_guarded(work); }});
    if (!late) run_until([&] { return s.tasks.empty(); });
  }
  return result(late ? cudaSuccess : sticky);
}

namespace {

constexpr std::size_t usual_shared = 48 * 1024, most_registers = 65536;
std::size_t most_shared = 227 * 1024;

cudaError_t refuse(cudaError_t e, const Kernel& kernel, const std::string& why) {
  explanations[e] = "cuda_shim: " + kernel.name + ": " + why;
  return result(e);
}
cudaError_t refuse_shared(const Kernel& kernel) {
  const std::string most = std::to_string(most_shared / 1024);
  return refuse(cudaErrorInvalidValue, kernel, "static and dynamic shared memory exceed " + most + " KiB");
}

// Whether an address is of the host's own memory, or of another GPU, neither of which a GPU can read.
bool is_out_of_reach(const char* p) {
  const auto number = reinterpret_cast<std::uintptr_t>(p);
  for (const Memory& m : memories)
    if (&m != &memories[device] && m.base && p >= m.base && p < m.base + m.space) return true;
  if (number < (std::uintptr_t{1} << 32) || number >> 47 != 0 || is_device_pointer(p)) return false;
  if (const auto at = pinned.upper_bound(p); at != pinned.end() && p >= at->first - at->second) return false;
  unsigned char there;
  return mincore(reinterpret_cast<void*>(number / 4096 * 4096), 1, &there) == 0;
}
// Parameters that are pointers, and words of structs that look like one. The bytes between a struct's fields may hold
// anything, also a part of an old pointer beside a small number: words whose lowest byte or lower half is one are let
// through. Not under AddressSanitizer, where device memory is ordinary memory.
bool points_out_of_reach(const Argument& a) {
  constexpr std::size_t longest = 1024;  // what is longer is a list, filled in part
  if (!guarded || a.bytes > longest) return false;
  for (std::size_t i = 0; i + sizeof(char*) <= a.bytes; i += sizeof(char*)) {
    const char* p = nullptr;
    std::memcpy(&p, static_cast<const char*>(a.at) + i, sizeof p);
    const auto word = reinterpret_cast<std::uintptr_t>(p);
    const bool looks_like_one = a.is_pointer || (word % 256 >= 16 && static_cast<std::uint32_t>(word) >> 24 != 0);
    if (looks_like_one && is_out_of_reach(p)) return true;
  }
  return false;
}

}  // namespace

cudaError_t launch(cudaStream_t stream, const void* function, const Argument* arguments, std::function<void()> thread,
                   dim3 grid, dim3 block, std::size_t shared) {
  note_call("cudaLaunchKernel");
  const std::lock_guard lock(mutex);
  const Kernel& kernel = kernel_at(function);
  if (stream_of(stream).device != device)
    return refuse(cudaErrorInvalidResourceHandle, kernel, "the stream is not of the current device");
  const std::uint64_t count = std::uint64_t{block.x} * block.y * block.z;
  const bool fits = count >= 1 && count <= 1024 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 && grid.x >= 1 &&
                    grid.y >= 1 && grid.z >= 1 && grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535;
  if (!fits) return refuse(cudaErrorInvalidConfiguration, kernel, "the grid or the block is too large, or empty");
  const auto allowed = allowed_shared.find({device, function});
  if (shared > usual_shared && (allowed == allowed_shared.end() || shared > allowed->second)) {
    return refuse(cudaErrorInvalidValue, kernel,
                  std::to_string(shared) + " bytes of shared memory were not asked for by cudaFuncSetAttribute");
  }
  if (shared + kernel.shared_bytes > most_shared) return refuse_shared(kernel);
  if ((count + 31) / 32 * 32 * ((kernel.registers + 7) / 8 * 8) > most_registers) {
    return refuse(cudaErrorLaunchOutOfResources, kernel,
                  std::to_string(count) + " threads of " + std::to_string(kernel.registers) + " registers");
  }
  for (const Argument* a = arguments; a->at; ++a) {
    if (!points_out_of_reach(*a)) continue;
    explanations[sticky = cudaErrorIllegalAddress] = "cuda_shim: " + kernel.name + ": parameter " +
                                                     std::to_string(a - arguments) +
                                                     " points to memory of the host or of another GPU";
    return result(sticky);
  }
  if (planned != cudaSuccess) {
    sticky = std::exchange(planned, cudaSuccess);
    return result(sticky);
  }
  ++launch_count;
  return enqueue(stream, [&kernel, thread = std::move(thread), grid, block, shared] {
    run_grid(kernel, thread, grid, block, shared);
  });
}

void set_late(bool on, unsigned seed) {
  const std::lock_guard lock(mutex);
  drain();
  late = on;
  random_order.seed(seed);
}
void set_device_count(int count) { device_count = count; }
void set_memory_limit(std::size_t bytes) { limit = bytes; }
void set_shared_limit(std::size_t bytes) { most_shared = bytes; }
void fail_next_launch(cudaError_t e) { planned = e; }
void forget_errors() {
  sticky = planned = last_error = cudaSuccess;
  explanations.clear();
  for (cuda_shim_stream* s : all_streams()) s->tasks.clear();
}
std::uint64_t launches() { return launch_count; }
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

const char* cudaGetErrorName(cudaError_t e) {
  switch (e) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorLaunchOutOfResources: return "cudaErrorLaunchOutOfResources";
    case cudaErrorMisalignedAddress: return "cudaErrorMisalignedAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    default: return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t e) {
  const std::lock_guard lock(mutex);
  const auto text = explanations.find(e);
  return text != explanations.end() ? text->second.c_str() : cudaGetErrorName(e);
}
cudaError_t cudaPeekAtLastError() { return sticky != cudaSuccess ? sticky : last_error; }
cudaError_t cudaGetLastError() {
  note_call(__func__);
  const cudaError_t e = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return e;
}

cudaError_t cudaGetDeviceCount(int* n) {
  note_call(__func__);
  *n = device_count;
  return result(device_count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int d) {
  note_call(__func__);
  if (d < 0 || d >= device_count) return result(cudaErrorInvalidDevice);
  device = d;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* d) {
  note_call(__func__);
  *d = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  note_call(__func__);
  *p = {"CPU shim", limit, 9, 0, 2};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
  note_call(__func__);
  switch (what) {
    case cudaDevAttrMultiProcessorCount: *value = 2; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(most_shared); break;
  }
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int bytes) {
  note_call(__func__);
  if (null_device) return cudaSuccess;
  const std::lock_guard lock(mutex);
  const Kernel& kernel = kernel_at(function);
  if (bytes < 0 || static_cast<std::size_t>(bytes) + kernel.shared_bytes > most_shared) {
    return refuse_shared(kernel);
  }
  allowed_shared[{device, function}] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  note_call(__func__);
  const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *found = !known            ? cudaDriverEntryPointSymbolNotFound
           : version < 12000 ? cudaDriverEntryPointVersionNotSufficent  // NVIDIA's spelling
                             : cudaDriverEntryPointSuccess;
  *function = *found == cudaDriverEntryPointSuccess ? reinterpret_cast<void*>(&encode_tiled) : nullptr;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* v) { return *v = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* v) { return *v = 13000, cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (const cudaError_t e = before_waiting(); e != cudaSuccess) return result(e);
  drain();
  return result(sticky);
}

// --- memory ---
cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (sticky != cudaSuccess) return result(sticky);
  if (const cudaError_t e = before_unsafe(); e != cudaSuccess) return result(e);
  Memory& m = memories[device];
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + granularity - 1) / granularity * granularity;
  if (m.used + size > limit) return result(cudaErrorMemoryAllocation);
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
  *total = limit;
  *free = limit - std::min(limit, memories[device].used);
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
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t s) {
  note_call(__func__);
  return enqueue(s, [=] { std::memset(p, value, bytes); });
}

// --- streams and events ---
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  streams.push_back(*s = new cuda_shim_stream{
                        .device = device, .tasks = {}, .capture = nullptr, .by = {}, .spoiled = false});
  return cudaSuccess;
}
// What was put on the stream is done later, and the stream's address may soon be that of another: as CUDA has it.
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  std::erase(streams, s);
  if (s->tasks.empty()) {
    delete s;
  } else {
    auto* rest = new cuda_shim_stream;
    rest->device = s->device;
    std::swap(rest->tasks, s->tasks);
    streams.push_back(rest);  // until the program ends: tests destroy few streams
    delete s;
  }
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (const cudaError_t e = before_waiting(); e != cudaSuccess) return result(e);
  run_until([&] { return stream_of(s).tasks.empty(); });
  return result(sticky);
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (const cudaError_t e = before_unsafe(); e != cudaSuccess) return result(e);
  return result(stream_of(s).tasks.empty() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  note_call(__func__);
  *e = new cuda_shim_event{.device = device, .time = {}};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  run_until([&] { return e->done >= e->recorded; });
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream) {
  note_call(__func__);
  if (null_device) return cudaSuccess;
  const std::lock_guard lock(mutex);
  cuda_shim_stream& s = stream_of(stream);
  if (s.device != e->device) return result(cudaErrorInvalidResourceHandle);
  if (s.capture) return cudaSuccess;  // order inside one captured stream is that of its work
  ++e->recorded;
  s.tasks.push_back({{}, [e] {
    ++e->done;
    e->time = std::chrono::steady_clock::now();
  }});
  if (!late) run_until([&] { return s.tasks.empty(); });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned) {
  note_call(__func__);
  if (null_device) return cudaSuccess;
  const std::lock_guard lock(mutex);
  cuda_shim_stream& s = stream_of(stream);
  if (s.capture) return cudaSuccess;
  s.tasks.push_back({[e, wanted = e->recorded] { return e->done >= wanted; }, {}});
  if (!late) run_until([&] { return s.tasks.empty(); });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (const cudaError_t error = before_waiting(); error != cudaSuccess) return result(error);
  run_until([&] { return e->done >= e->recorded; });
  return result(sticky);
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (const cudaError_t error = before_unsafe(); error != cudaSuccess) return result(error);
  return result(e->done >= e->recorded ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  note_call(__func__);
  *ms = std::chrono::duration<float, std::milli>(b->time - a->time).count();
  return cudaSuccess;
}

// Of a null device alone: cuda/launch.cuh gives others a function that calls the kernel.
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t) {
  note_call(__func__);
  return null_device ? cudaSuccess : result(cudaErrorInvalidValue);
}

// --- graphs ---
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  *status = stream_of(s).capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (!s || s->capture) return result(cudaErrorInvalidValue);
  s->capture = new cuda_shim_graph;
  s->by = std::this_thread::get_id();
  s->spoiled = false;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  note_call(__func__);
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  *graph = std::exchange(s->capture, nullptr);
  if (std::exchange(s->spoiled, false)) {
    delete std::exchange(*graph, nullptr);
    return result(cudaErrorStreamCaptureInvalidated);
  }
  return result(*graph ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  note_call(__func__);
  *exec = new cuda_shim_graph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  note_call(__func__);
  for (const auto& work : exec->work) {
    if (const cudaError_t e = enqueue(s, work); e != cudaSuccess) return e;
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  note_call(__func__);
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  note_call(__func__);
  delete exec;
  return cudaSuccess;
}
