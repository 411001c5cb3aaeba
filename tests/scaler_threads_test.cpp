// The loss scaler between threads, for ThreadSanitizer (scripts/sanitize.sh) as well as for the values: forward in one
// thread and steps in another, several threads in one backward, external reports, concurrent scalers.
#include <atomic>
#include <condition_variable>
#include <cmath>
#include <deque>
#include <mutex>
#include <thread>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "amp/scale_monitor.h"
#include "autograd/backward.h"
#include "core/ops.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::GradScaler;

namespace {

// The data that one iteration leaves for its step: separate parameters, so that no two iterations share a gradient.
struct Work {
  Tensor p = ones({16}).requires_grad_();
  optim::Sgd opt{optim::Parameters{p}, {.lr = 1}};
  bool spoilt = false;
};
class Queue {  // of at most `room` iterations
 public:
  explicit Queue(std::size_t room) : room_(room) {}
  void push(std::unique_ptr<Work> w) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return list_.size() < room_; });
    list_.push_back(std::move(w));
    changed_.notify_all();
  }
  std::unique_ptr<Work> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !list_.empty(); });
    std::unique_ptr<Work> w = std::move(list_.front());
    list_.pop_front();
    changed_.notify_all();
    return w;
  }

 private:
  std::size_t room_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Work>> list_;
};

}  // namespace

TEST_CASE("forward in one thread, steps in another: each gradient is divided by the scale of its own loss",
          "[scaler][G44]") {
  constexpr int iterations = 200;
  GradScaler scaler({.init_scale = 65536, .growth_interval = 5});
  Queue queue(2);
  std::atomic<int> wrong = 0, skipped = 0;
  std::thread stepping([&] {
    for (int t = 0; t < iterations; ++t) {
      const std::unique_ptr<Work> w = queue.pop();
      if (t % 3 == 0) scaler.unscale_(w->opt);
      if (t % 6 == 0) optim::clip_grad_norm_({w->p}, 100);
      const bool was_skipped = scaler.step(w->opt).skipped();
      scaler.update();
      skipped += was_skipped;
      if (was_skipped != w->spoilt) ++wrong;
      if (!w->spoilt && w->p.grad().to_vector<float>() != std::vector<float>(16, 1.0f)) ++wrong;
    }
  });
  std::atomic<bool> done = false;
  std::thread watching([&] {
    amp::ScaleMonitor monitor(scaler);
    while (!done) {
      monitor.observe();
      if (scaler.get_scale() <= 0 || scaler.total_skipped() > scaler.total_updates()) ++wrong;
      if (scaler.summary().empty() || scaler.overflows().size() > 32) ++wrong;
      std::this_thread::yield();
    }
  });
  for (int t = 0; t < iterations; ++t) {
    auto w = std::make_unique<Work>();
    backward(scaler.scale(w->p.sum()));
    w->spoilt = t % 11 == 4;
    if (w->spoilt) w->p.grad().fill_(HUGE_VAL);
    queue.push(std::move(w));
  }
  stepping.join();
  done = true;
  watching.join();
  CHECK(wrong == 0);
  CHECK(skipped == 18);
  CHECK(scaler.total_updates() == iterations);
  CHECK(scaler.total_skipped() == 18);
}

TEST_CASE("several threads scale and differentiate into shared parameters, one steps", "[scaler][G37]") {
  Tensor w = random_tensor({8, 8}, 3).to(f32).requires_grad_();
  optim::Sgd opt({w}, {.lr = 0});
  GradScaler scaler({.init_scale = 256});
  const auto part = [&](int k) {
    const Tensor x = random_tensor({4, 8}, 50 + static_cast<std::uint64_t>(k)).to(f32);
    return amp::autocast(bf16, [&] { return sum(square(matmul(x, w))); });
  };
  for (int round = 0; round < 10; ++round) {
    opt.zero_grad();
    std::vector<std::thread> threads;
    for (int k = 0; k < 4; ++k) threads.emplace_back([&, k] { backward(scaler.scale(part(k))); });
    for (std::thread& t : threads) t.join();
    CHECK(!scaler.step(opt).skipped());
    scaler.update();
  }
  const Tensor together = w.grad().clone();
  opt.zero_grad();
  for (int k = 0; k < 4; ++k) backward(part(k));
  CHECK(difference(together, w.grad().to(f64), {1e-5, 1e-4}) == "");
}

TEST_CASE("scalers side by side do not touch each other", "[scaler]") {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      GradScaler scaler({.init_scale = std::exp2(k + 4), .growth_interval = 10});
      Work w;
      for (int t = 0; t < 50; ++t) {
        w.opt.zero_grad();
        backward(scaler.scale(w.p.sum()));
        if (t % 10 == k) w.p.grad().fill_(HUGE_VAL);
        scaler.unscale_(w.opt);
        optim::clip_grad_norm_({w.p}, 1e30);
        if (scaler.step(w.opt).skipped() != (t % 10 == k)) ++wrong;
        scaler.update();
      }
      if (scaler.get_scale() != std::exp2(k + 4 - 5)) ++wrong;
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("setters, saving and settings from another thread while training runs", "[scaler]") {
  GradScaler scaler({.init_scale = 1024, .growth_interval = 100});
  Work w;
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) {
      scaler.set_growth_interval(100);
      scaler.set_backoff_factor(0.5);
      try {
        scaler.state_dict();  // refused in mid-iteration
      } catch (const Error&) {
      }
      std::this_thread::yield();
    }
  });
  for (int t = 0; t < 100; ++t) {
    w.opt.zero_grad();
    backward(scaler.scale(w.p.sum()));
    scaler.step(w.opt);
    scaler.update();
  }
  done = true;
  other.join();
  CHECK(scaler.get_scale() == 2048);
}
