// Ref<T>: an intrusive shared pointer (one word, atomic count inside T), and Pooled<T>: objects created and destroyed
// by every operator are allocated from a free list of their thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

namespace mantissa {

class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  void retain() const { refs_.fetch_add(1, std::memory_order_relaxed); }
  // True when the caller dropped the last reference and must destroy the object.
  bool drop() const {
    if (refs_.load(std::memory_order_acquire) == 1) return true;  // no other thread can see it
    return refs_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  bool unique() const { return refs_.load(std::memory_order_acquire) == 1; }

 private:
  mutable std::atomic<int> refs_{0};
};

template <class T> class Ref {
 public:
  Ref() = default;
  explicit Ref(T* p) : p_(p) { if (p_) p_->retain(); }
  Ref(const Ref& o) : Ref(o.p_) {}
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  ~Ref() { reset(); }
  Ref& operator=(Ref o) noexcept { std::swap(p_, o.p_); return *this; }
  void reset() { if (T* p = std::exchange(p_, nullptr)) if (p->drop()) T::destroy(p); }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  friend bool operator==(const Ref&, const Ref&) = default;

 private:
  T* p_ = nullptr;
};

// A bounded per-thread free list for blocks of one size. Disabled under AddressSanitizer, so that a use after free is
// detected.
template <std::size_t size> class BlockPool {
 public:
  static void* take() {
    Local& l = local();
    if (Block* b = l.head) {
      l.head = b->next;
      --l.count;
      return b;
    }
    return ::operator new(size);
  }
  static void give(void* p) noexcept {
    Local& l = local();
    if (l.count >= limit || l.closed) return ::operator delete(p);
    if (!l.head) closer();  // first block of this thread: free the list when the thread ends
    l.head = ::new (p) Block{l.head};
    ++l.count;
  }

 private:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr int limit = 0;
#else
  static constexpr int limit = 256;
#endif
  struct Block { Block* next; };
  struct Local { Block* head; int count; bool closed; };
  struct Closer {
    ~Closer() {
      Local& l = local();
      l.closed = true;
      while (Block* b = l.head) {
        l.head = b->next;
        ::operator delete(b);
      }
      l.count = 0;
    }
  };
  static Local& local() {
    static constinit thread_local Local l{nullptr, 0, false};
    return l;
  }
  static void closer() { static thread_local Closer c; (void)&c; }
};

template <class T> struct Pooled {
  static void* operator new(std::size_t) { return BlockPool<sizeof(T)>::take(); }
  static void operator delete(void* p) noexcept { BlockPool<sizeof(T)>::give(p); }
};

}  // namespace mantissa
