// One thread that runs one job at a time, with the thread-local modes (autocast, gradients) of the submitting thread. A
// job's exception is stored and thrown by the next call of wait() or rethrow(); it never terminates the process.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace mantissa::optim {

class Background {
 public:
  Background() = default;
  ~Background();  // waits for the job; discards a pending exception
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void start(std::function<void()> job);  // the first call creates the thread; requires wait() since the last start()
  void wait();     // until the job is done; throws its exception
  void rethrow();  // like wait(), but does not block

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  // until taken by the thread
  std::exception_ptr error_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace mantissa::optim
