#include "io/stop.h"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace mantissa::io {
namespace {

std::atomic<bool> asked{false}, catching{false};

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
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    while (sigwait(&signals, &signal) == 0) {
      if (asked.exchange(true) && signal != SIGHUP) std::_Exit(128 + signal);
    }
  }).detach();
}

bool stop_asked() { return asked; }

}  // namespace mantissa::io
