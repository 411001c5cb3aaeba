#include "optim/background.h"

#include <utility>

#include "core/context.h"
#include "core/error.h"
#include "core/parallel.h"

namespace mantissa::optim {

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Background::start(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  check(!busy_, "background thread: a job is running");
  job_ = [job = std::move(job), modes = context()] {
    context() = modes;
    job();
  };
  busy_ = true;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void Background::wait() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
  }
  rethrow();
}

void Background::rethrow() {
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    error = std::exchange(error_, {});
  }
  if (error) std::rethrow_exception(error);
}

void Background::run() {
  flush_denormals_in_this_thread();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return busy_ || stop_; });
    if (!busy_) return;
    std::function<void()> job = std::exchange(job_, {});
    lock.unlock();
    std::exception_ptr error;
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    job = {};  // destroyed before waiters are notified: it may own tensors
    lock.lock();
    error_ = std::move(error);
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace mantissa::optim
