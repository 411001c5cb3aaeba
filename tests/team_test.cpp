// The thread pool behind parallel_for: concurrent jobs from several threads, more threads than processors, exceptions,
// fork, and no processor use when idle.
#include "core/team.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch_compat.h"
#include "core/parallel.h"

using namespace mantissa;

namespace {

struct Threads {  // sets the number of threads for a scope
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before = num_threads();
};

// Sums [0, n) in blocks of one; every item must be seen once.
std::int64_t sum_of(std::int64_t n) {
  std::vector<int> seen(static_cast<std::size_t>(n));
  std::atomic<std::int64_t> sum{0};
  parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      ++seen[static_cast<std::size_t>(i)];
      sum += i;
    }
  });
  for (int times : seen) if (times != 1) return -1;
  return sum;
}

double processor_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

TEST_CASE("team: thousands of small jobs, on fewer and on more threads than processors") {
  for (int threads : {2, 3, 9, 200}) {
    const Threads scope(threads);
    for (std::int64_t n = 2; n < 1000; ++n) {
      if (sum_of(n) != n * (n - 1) / 2) FAIL(threads << " threads, " << n << " items");
    }
  }
}

TEST_CASE("team: several threads have jobs at once, more of them than can be shared") {
  const Threads scope(3);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 12; ++c) {
    callers.emplace_back([&] {
      for (std::int64_t n = 2; n < 300; ++n) wrong += sum_of(n) != n * (n - 1) / 2;
    });
  }
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("team: of several exceptions the first block's arrives, after all blocks have run") {
  const Threads scope(3);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> done{0};
    std::string what;
    try {
      parallel_for(64, 1, [&](std::int64_t b, std::int64_t) {
        ++done;
        if (b % 10 == 7) throw std::runtime_error(std::to_string(b));
      });
    } catch (const std::runtime_error& e) {
      what = e.what();
    }
    REQUIRE(what == "7");
    REQUIRE(done == 64);
  }
}

TEST_CASE("team: a thread that serves others works alone") {
  const Threads scope(2);
  std::thread([] {
    run_serially_in_this_thread();
    const auto self = std::this_thread::get_id();
    std::atomic<int> strangers{0};
    parallel_for(1000, 1, [&](std::int64_t, std::int64_t) { strangers += std::this_thread::get_id() != self; });
    CHECK(strangers == 0);
  }).join();
}

#if !defined(__SANITIZE_THREAD__)  // which knows no threads that are started after a fork
TEST_CASE("team: a forked child starts threads of its own") {
  const Threads scope(2);
  CHECK(sum_of(100) == 4950);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);  // a hanging child must not wait forever
    _exit(sum_of(100) == 4950 && sum_of(500) == 124750 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(sum_of(100) == 4950);
}

TEST_CASE("team: an idle process uses no processor") {
  const Threads scope(2);
  CHECK(sum_of(100) == 4950);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(processor_seconds() - before < 0.05);
  CHECK(sum_of(100) == 4950);  // and works again
}
#endif
