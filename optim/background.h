// One thread that runs one job at a time, in the modes (autocast, gradients) of the thread that gave it. An
// exception of a job is kept and thrown by the next call of wait() or rethrow(); nothing ends the process.
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
  ~Background();  // waits for the job; an exception that nobody has asked for is dropped
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void start(std::function<void()> job);  // the thread is made by the first; wait() must have returned since the last
  void wait();     // until the job is done
  void rethrow();  // does not wait

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  // until the thread has taken it
  std::exception_ptr error_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace mantissa::optim
