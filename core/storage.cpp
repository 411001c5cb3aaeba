#include "core/storage.h"

#include "core/accelerator.h"
#include "core/packed_weights.h"

namespace mantissa {

Ref<Storage> Storage::allocate(std::int64_t nbytes, Device device) {
  Ref<Storage> s(new Storage);
  s->nbytes_ = nbytes;
  s->device_ = device;
  if (device.is_cpu()) {
    s->data_ = nbytes <= inline_capacity ? s->inline_ : cpu_allocator().allocate(static_cast<std::size_t>(nbytes));
  } else {
    s->data_ =
        cuda_backend::prepare(&cuda_backend::allocate, device)(static_cast<std::size_t>(nbytes), device, &s->owner_);
    if (recordings_of_writes.load(std::memory_order_relaxed) != 0) note_recorded_write(s.get());
  }
  return s;
}

Ref<Storage> Storage::borrow(void* data, std::int64_t nbytes, Device device, void (*release)(void*), void* owner) {
  Ref<Storage> s(new Storage);
  s->data_ = data;
  s->nbytes_ = nbytes;
  s->device_ = device;
  s->release_ = release;
  s->owner_ = owner;
  s->written_by("its owner");  // version 1: not taken for a fresh result
  return s;
}

Storage::~Storage() {
  if (is_noted_) forget_recorded_writes(this);
  packed_weights::forget(this);
  if (release_) {
    release_(owner_);
  } else if (data_ && data_ != inline_) {
    if (device_.is_cpu()) cpu_allocator().deallocate(data_, static_cast<std::size_t>(nbytes_));
    else cuda_backend::deallocate(data_, static_cast<std::size_t>(nbytes_), owner_);
  }
}

}  // namespace mantissa
