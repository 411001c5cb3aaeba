#include "cuda/staging.h"

#include <cstring>
#include <mutex>

#include "cuda/check.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {
namespace {

// Slots are used in turn. A slot is free again when the copy from it has completed; the host waits for that only when
// it is as many copies ahead of the device as there are slots.
struct Place {
  void* data = nullptr;
  std::size_t bytes = 0;
  Event* copied = nullptr;  // an event of the device that it serves
};
struct Ring {
  static constexpr int places = 16;
  std::mutex mutex;
  Place all[places];
  int next = 0;
};
constexpr int most_devices = 64;

Ring& ring_of(int device) {
  static std::mutex mutex;
  static Ring* rings[most_devices];  // never destroyed: tensors may outlive static objects
  const std::lock_guard lock(mutex);
  if (!rings[device]) rings[device] = new Ring;
  return *rings[device];
}

}  // namespace

bool upload_staged(void* to, const void* from, std::size_t bytes) {
  const int device = current_device();
  if (bytes > most_staged || device >= most_devices) return false;
  Ring& ring = ring_of(device);
  const std::lock_guard lock(ring.mutex);
  Place& place = ring.all[ring.next];
  ring.next = (ring.next + 1) % Ring::places;
  if (!place.copied) place.copied = new Event;
  else place.copied->wait();
  if (place.bytes < bytes) {
    if (place.data) deallocate_pinned(place.data, place.bytes);
    place.data = nullptr, place.bytes = 0;
    try {
      place.data = allocate_pinned(bytes);
    } catch (const OutOfMemory&) {
      return false;
    }
    place.bytes = bytes;
  }
  std::memcpy(place.data, from, bytes);
  check_status(cudaMemcpyAsync(to, place.data, bytes, cudaMemcpyHostToDevice, stream()), "copying");
  place.copied->record();
  return true;
}

}  // namespace mantissa::cuda_backend
