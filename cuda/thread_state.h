// What a library keeps for each thread that calls it: handles, plans, compiled code. A thread that ends leaves its
// state to the next one that asks, which need not find all that again; so there are as many as threads were ever active
// at once. Nothing is destroyed: a captured graph may run kernels of plans that were found by a thread that has ended.
#pragma once

#include <mutex>
#include <vector>

namespace mantissa::cuda_backend {

// static thread_local ThreadState<std::map<int, Plan>> plans;    of this thread: *plans
template <class T> class ThreadState {
 public:
  ThreadState() {
    Left& l = left();
    const std::lock_guard lock(l.mutex);
    if (l.states.empty()) {
      state_ = new T;
    } else {
      state_ = l.states.back();
      l.states.pop_back();
    }
  }
  ~ThreadState() {
    Left& l = left();
    const std::lock_guard lock(l.mutex);
    l.states.push_back(state_);
  }
  ThreadState(const ThreadState&) = delete;
  T& operator*() const { return *state_; }

 private:
  struct Left {  // by threads that have ended
    std::mutex mutex;
    std::vector<T*> states;
  };
  static Left& left() {
    static Left& l = *new Left;  // never destroyed: threads end late
    return l;
  }
  T* state_;
};

}  // namespace mantissa::cuda_backend
