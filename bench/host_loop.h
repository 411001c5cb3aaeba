// How programs that measure the host's own work repeat it: by time here, by instructions under callgrind, which
// collects in measured_loop() alone (tests/instructions_test.sh).
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>

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

// run(name) for each of them in a process of its own: all begin in the same state, and callgrind, which goes on in the
// child and says what it collected there, reads the program's symbols once. Whether all of them ended well.
template <class F> bool each_alone(char** names, int count, F&& run) {
  bool good = true;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) return run(names[i]);
    int status = 1;
    good = child > 0 && waitpid(child, &status, 0) == child && status == 0 && good;
  }
  return good;
}

}  // namespace bench

// By its plain name callgrind finds it.
extern "C" [[gnu::noinline]] inline void measured_loop(const std::function<void()>& body, int count) {
  for (int i = 0; i < count; ++i) body();
}
