// How programs that measure the host's own work repeat it: by time here, by instructions under callgrind, which
// collects in measured_loop() alone (tests/instructions_test.sh).
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "core/error.h"

namespace bench {

// Nanoseconds of one call of `body`: the least mean of 20 rounds of `count` calls.
inline double nanoseconds(int count, const std::function<void()>& body) {
  double best = 1e30;
  for (int round = 0; round < 20; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) body();
    const std::chrono::duration<double, std::nano> t = std::chrono::steady_clock::now() - begin;
    best = std::min(best, t.count() / count);
  }
  return best;
}

}  // namespace bench

// By its plain name callgrind finds it.
extern "C" [[gnu::noinline]] inline void measured_loop(const std::function<void()>& body, int count) {
  for (int i = 0; i < count; ++i) body();
}

namespace bench {

// What `PROGRAM N NAME...` does, and its exit status: each of these works (with .name and .make()) N times in
// measured_loop() after a warm-up, in a process of its own. All begin in the same state, and callgrind, which goes on
// in the child and says what it collected there, reads the program's symbols once.
template <class Works> int run_alone(const Works& works, int argc, char** argv) {
  int failures = 0;
  for (int i = 2; i < argc; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (const auto& work : works) {
        if (work.name != std::string_view(argv[i])) continue;
        const auto body = work.make();
        for (int k = 0; k < 20; ++k) body();
        measured_loop(body, std::atoi(argv[1]));
        return 0;
      }
      mantissa::fail("there is no work ", argv[i]);
    }
    int status = 1;
    failures += child < 0 || waitpid(child, &status, 0) != child || status != 0;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace bench
