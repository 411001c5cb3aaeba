#include "cuda/stream_uses.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/stream_link.h"

namespace mantissa::cuda_backend {
namespace {

struct Use {
  cudaStream_t stream;
  int device;  // of the stream
};
struct End {  // of a use
  cudaStream_t stream;
  std::unique_ptr<Event> event;
};
struct Kept {
  void* p;
  std::size_t bytes;
  void* pool;
  std::vector<End> ends;
};
struct All {
  std::mutex mutex;
  std::unordered_map<const void*, std::vector<Use>> uses;  // of blocks that tensors own
  std::vector<Kept> kept;                                  // of blocks that none does
};
All& all() {
  static All& a = *new All;  // never destroyed: tensors in static objects are freed later
  return a;
}

// After what the stream has been given so far.
End end_of(const Use& use) {
  const int before = current_device();
  activate({DeviceType::cuda, static_cast<std::int8_t>(use.device)});
  auto end = std::make_unique<Event>();
  {
    const StreamScope on_stream(use.stream);
    end->record();
  }
  activate({DeviceType::cuda, static_cast<std::int8_t>(before)});
  return {use.stream, std::move(end)};
}

void give_back(std::vector<Kept> blocks) noexcept {
  blocks_used_elsewhere -= static_cast<int>(blocks.size());
  for (const Kept& k : blocks) deallocate(k.p, k.bytes, k.pool);
}

}  // namespace

void note_stream_use(const void* block, void* stream) {
  const Use use{static_cast<cudaStream_t>(stream), current_device()};
  const std::lock_guard lock(all().mutex);
  std::vector<Use>& uses = all().uses[block];
  if (uses.empty()) ++blocks_used_elsewhere;
  if (std::ranges::find(uses, use.stream, &Use::stream) == uses.end()) uses.push_back(use);
}

bool keep_until_used(void* p, std::size_t bytes, void* pool) noexcept {
  const CaptureRelaxed relaxed;
  std::vector<Use> uses;
  {
    const std::lock_guard lock(all().mutex);
    const auto at = all().uses.find(p);
    if (at == all().uses.end()) return false;
    uses = std::move(at->second);
    all().uses.erase(at);
  }
  try {
    Kept kept{p, bytes, pool, {}};
    for (const Use& u : uses) kept.ends.push_back(end_of(u));
    const std::lock_guard lock(all().mutex);
    all().kept.push_back(std::move(kept));  // counted as before
    return true;
  } catch (...) {  // no memory for this, or a GPU that is lost: the host waits instead
    for (const Use& u : uses) (void)cudaStreamSynchronize(u.stream);
  }
  --blocks_used_elsewhere;
  return false;
}

void free_used_blocks() noexcept {
  std::vector<Kept> done;
  try {
    const std::lock_guard lock(all().mutex);
    std::vector<Kept>& kept = all().kept;
    std::vector<cudaStream_t> busy;  // what a stream has to do after something unfinished is not asked for
    const auto is_over = [&](const End& e) {
      if (std::ranges::find(busy, e.stream) != busy.end()) return false;
      if (e.event->reached()) return true;
      busy.push_back(e.stream);
      return false;
    };
    std::vector<bool> over;
    for (const Kept& k : kept) over.push_back(std::ranges::all_of(k.ends, is_over));
    std::vector<Kept> rest;
    done.reserve(kept.size()), rest.reserve(kept.size());
    for (std::size_t i = 0; i < over.size(); ++i) (over[i] ? done : rest).push_back(std::move(kept[i]));
    kept = std::move(rest);
  } catch (...) {  // a GPU that is lost: whoever launches next says so
  }
  give_back(std::move(done));
}

bool wait_for_used_blocks() {
  std::vector<Kept> blocks;
  {
    const std::lock_guard lock(all().mutex);
    blocks.swap(all().kept);
  }
  const bool any = !blocks.empty();
  const CaptureRelaxed relaxed(any);
  std::exception_ptr error;  // found by a kernel: it is told once, and after the memory is safe
  for (const Kept& k : blocks) {
    for (const End& end : k.ends) {
      try {
        end.event->wait();
      } catch (...) {
        error = std::current_exception();
      }
    }
  }
  give_back(std::move(blocks));
  if (error) std::rethrow_exception(error);
  return any;
}

void forget_stream(cudaStream_t stream) noexcept {
  const std::lock_guard lock(all().mutex);
  for (auto at = all().uses.begin(); at != all().uses.end();) {
    std::erase_if(at->second, [stream](const Use& u) { return u.stream == stream; });
    if (at->second.empty()) at = all().uses.erase(at), --blocks_used_elsewhere;
    else ++at;
  }
}

}  // namespace mantissa::cuda_backend
