// Small reports from the device: asynchronous copies to pinned memory. Requests rotate through a few buffers; one that
// finds all of them in flight is dropped, because a later one will bring newer data.
#include <array>

#include "core/accelerator.h"
#include "core/recorded_memory.h"
#include "cuda/check.h"
#include "cuda/recorded_memory.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {

struct Mirror {
  struct Slot {
    void* data = nullptr;
    Event copied;
    bool under_way = false;
    std::uint64_t number = 0;  // of the request that these bytes belong to; 0: none
  };
  explicit Mirror(std::size_t n) : bytes(n) {
    for (Slot& s : slots) s.data = allocate_pinned(n);
  }
  ~Mirror() {
    for (Slot& s : slots) {
      try {
        if (s.under_way) s.copied.wait();
        if (replayed == &s && !is_capturing())
          check_status(cudaStreamSynchronize(stream()), "waiting for the last replay");
      } catch (const Error&) {  // the device is lost: nothing will be written any more
      }
      outdate_recordings(s.data, bytes);
      deallocate_pinned(s.data, bytes);
    }
  }
  // Checks which copies have completed.
  void look() {
    for (Slot& s : slots) s.under_way = s.under_way && !s.copied.reached();
  }

  std::size_t bytes;
  std::array<Slot, 4> slots;
  Slot* replayed = nullptr;  // written by a graph at every replay, at an unknown time
  std::uint64_t requests = 0;
};

Mirror* make_mirror(std::size_t bytes) { return new Mirror(bytes); }
void destroy_mirror(Mirror* mirror) noexcept { delete mirror; }

void request(Mirror* m, const void* from) {
  const bool capturing = is_capturing();
  const auto copy_to = [&](const Mirror::Slot& s) {
    note_use(from), note_use(s.data);
    check_status(cudaMemcpyAsync(s.data, from, m->bytes, cudaMemcpyDeviceToHost, stream()), "copying a report");
  };
  if (m->replayed) return copy_to(*m->replayed);  // a step may run by itself between replays, or from now on
  m->look();
  for (Mirror::Slot& s : m->slots) {
    if (s.under_way) continue;
    copy_to(s);
    s.number = ++m->requests;
    if (capturing) {
      m->replayed = &s;
    } else {
      s.copied.record();
      s.under_way = true;
    }
    return;
  }
}

const void* latest(Mirror* m) {
  if (m->replayed) return m->replayed->data;
  m->look();
  const Mirror::Slot* newest = nullptr;
  for (const Mirror::Slot& s : m->slots) {
    if (!s.under_way && s.number > (newest ? newest->number : 0)) newest = &s;
  }
  return newest ? newest->data : nullptr;
}

}  // namespace mantissa::cuda_backend
