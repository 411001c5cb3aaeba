#include "io/stop.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

namespace mantissa::io {
namespace {

std::atomic<bool> asked{false}, catching{false};

// Job managers send SIGTERM to every process of a job, and a launcher among these passes it on.
constexpr std::chrono::seconds same_request{1};

}  // namespace

void catch_stop_signals() {
  if (catching.exchange(true)) return;
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaddset(&signals, signal);
    std::signal(signal, SIG_DFL);  // a shell starts background programs with SIGINT ignored
  }
  struct sigaction hangup;
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_DFL) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    using Clock = std::chrono::steady_clock;
    std::optional<Clock::time_point> first;  // of the signals that end the program when repeated
    for (int signal = 0; sigwait(&signals, &signal) == 0;) {
      asked = true;
      if (signal == SIGHUP) continue;
      if (!first) first = Clock::now();
      else if (signal == SIGINT || Clock::now() - *first > same_request) std::_Exit(128 + signal);
    }
  }).detach();
}

bool stop_asked() { return asked; }

}  // namespace mantissa::io
