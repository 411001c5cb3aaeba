// What the files of the runtime share: its lock and its errors (runtime.cpp), device memory (memory.cpp), streams
// (streams.cpp). For these files only; tests see shim.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_shim/shim.h"

struct cuda_shim_event {
  struct Reached {
    std::uint64_t times = 0;
    std::chrono::steady_clock::time_point last;
  };
  int device = 0;
  std::uint64_t recorded = 0;  // how often it was asked for
  std::shared_ptr<Reached> reached = std::make_shared<Reached>();  // work that waits for it may outlive it
  bool is_done() const { return reached->times >= recorded; }
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

inline std::recursive_mutex mutex;  // one launch, one copy at a time
inline thread_local int device = 0;

// --- errors (runtime.cpp) ---
inline cudaError_t sticky = cudaSuccess, planned = cudaSuccess;
// Of the last error of a kind: a kernel that failed, a launch refused.
inline std::map<cudaError_t, std::string> explanations;
cudaError_t result(cudaError_t e);  // also what cudaGetLastError says next

// --- device memory (memory.cpp) ---
// Under AddressSanitizer every allocation is an ordinary one: there reading beyond its end is what is looked for.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool guarded = false;
#else
inline constexpr bool guarded = true;
#endif
inline std::size_t memory_limit = std::size_t{1} << 30;  // of each device
bool is_out_of_reach(const char* p);  // whether the current GPU cannot read there: the host's own memory, another GPU's

// --- streams (streams.cpp) ---
inline constexpr int most_devices = 4;
cuda_shim_stream& stream_of(cudaStream_t s);
std::vector<cuda_shim_stream*> all_streams();
void drain();                  // runs all that is left to do
cudaError_t before_unsafe();   // allocating or asking for events: a thread that captures may not, unless it insists
// A thread that captures cannot record waiting, and nobody waits for a device while one of its streams captures. After
// a sticky error nothing works any more.
enum class Wait { for_stream, for_device };
cudaError_t before_waiting(Wait what);

// --- launches (launch.cpp) ---
inline std::size_t most_shared = 227 * 1024;  // bytes of a block

}  // namespace cuda_shim
