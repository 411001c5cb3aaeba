// kill -9 while a checkpoint is being saved: the file on disk is the previous or a later checkpoint, complete. Two
// variants: at a random moment, and at every single step of a save in turn. $MANTISSA_KILL_TRIALS sets the number of
// random kills (scripts/kill_test.sh uses 200).
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <random>

#include "catch_compat.h"
#include "io/checkpoint.h"
#include "io/file.h"
#include "io/stop.h"
#include "temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

constexpr std::int64_t elements = 256 * 1024;  // a file of 2 MB

// Every element of every tensor encodes its step, so a mixture of two steps would be detected.
io::Checkpoint at_step(std::int64_t step, std::int64_t count) {
  io::Checkpoint c;
  for (const char* name : {"weight", "exp_avg"}) {
    const Tensor t = Tensor::allocate({count}, i32);
    for (std::int64_t i = 0; i < count; ++i) t.data<std::int32_t>()[i] = static_cast<std::int32_t>(step);
    c.put("model", {{name, t}});
  }
  c.set("step", std::to_string(step));
  return c;
}

// The step of the checkpoint at `path`; throws if it is incomplete or inconsistent.
std::int64_t step_on_disk(const std::string& path) {
  const io::Checkpoint c = io::load_checkpoint(path);
  const std::int64_t step = std::stoll(c.text("step"));
  check(c.tensors.size() == 2, "expected two tensors");
  for (const auto& [name, t] : c.tensors)
    for (std::int64_t i = 0; i < t.numel(); ++i)
      check(t.data<std::int32_t>()[i] == step, name, " is of another step");
  return step;
}

int kill_at = 0, steps_seen = 0;
int suicide(io::FileStep, std::size_t* nbytes) {
  if (steps_seen++ != kill_at) return 0;
  if (*nbytes > 1) {  // a write: let it go on in shorter and shorter pieces and die before its last byte
    *nbytes /= 2;
    ++kill_at;
    return 0;
  }
  ::raise(SIGKILL);
  return 0;
}

int reap(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("kill -9 at a random moment while saving") {
  const char* asked = std::getenv("MANTISSA_KILL_TRIALS");
  const int trials = asked ? std::atoi(asked) : 20;
  REQUIRE(trials > 0);
  const std::uint64_t seed = test::seed();
  std::mt19937_64 random(seed);
  const TempDir dir;
  const std::string path = dir / "run.ckpt";
  std::int64_t last = 0;
  int good = 0;
  save_checkpoint(path, at_step(0, elements));
  for (int trial = 0; trial < trials; ++trial) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {  // saves one step after the other until it is killed
      [[maybe_unused]] const ssize_t n = ::write(ready[1], "x", 1);
      for (std::int64_t step = last + 1;; ++step) save_checkpoint(path, at_step(step, elements));
    }
    char byte;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::usleep(static_cast<useconds_t>(random() % 60'000));
    ::kill(child, SIGKILL);
    const int status = reap(child);
    REQUIRE(WIFSIGNALED(status));
    ::close(ready[0]);
    ::close(ready[1]);
    INFO("trial " << trial << ", MANTISSA_TEST_SEED=" << seed);
    const std::int64_t step = step_on_disk(path);
    CHECK(step >= last);
    last = step;
    ++good;
  }
  save_checkpoint(path, at_step(last + 1, elements));
  CHECK(dir.files() == 1);  // what the killed writers left is gone
  std::cout << "kill -9 while saving: " << good << "/" << trials << " left a loadable checkpoint, " << last
            << " saves completed\n";
  CHECK(good == trials);
}

TEST_CASE("kill -9 at every step of a save") {
  const TempDir dir;
  const std::string path = dir / "run.ckpt";
  int killed = 0;
  for (int n = 0;; ++n) {
    save_checkpoint(path, at_step(1, 64));
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      kill_at = n;
      io::set_fault_hook(suicide);
      save_checkpoint(path, at_step(2, 64));
      ::_exit(0);
    }
    const int status = reap(child);
    INFO("killed at step " << n);
    const std::int64_t step = step_on_disk(path);
    if (WIFEXITED(status)) {
      CHECK(step == 2);
      break;
    }
    CHECK((step == 1 || step == 2));
    ++killed;
  }
  CHECK(killed >= 7);
  std::cout << "kill -9 at every step of a save: " << killed << "/" << killed
            << " left a loadable checkpoint\n";
}

TEST_CASE("SIGTERM and Ctrl-C ask a program to stop, and the second one stops it at once") {
  for (const int signal : {SIGTERM, SIGINT}) {
    int ready[2], seen[2];
    REQUIRE((pipe(ready) == 0 && pipe(seen) == 0));
    const pid_t child = fork();
    if (child == 0) {
      io::catch_stop_signals();
      io::catch_stop_signals();
      char byte = io::stop_asked() ? 'x' : 'r';
      if (write(ready[1], &byte, 1) != 1) _exit(1);
      while (!io::stop_asked()) usleep(1000);
      byte = 's';
      if (write(seen[1], &byte, 1) != 1) _exit(1);
      for (;;) usleep(1000);
    }
    char byte = 0;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    CHECK(byte == 'r');
    const auto begin = std::chrono::steady_clock::now();
    kill(child, signal);
    kill(child, SIGHUP);  // as well: a lost terminal is never the second request
    REQUIRE(read(seen[0], &byte, 1) == 1);
    int status = 0;
    usleep(20'000);
    if (signal == SIGTERM) {  // at once again, passed on by a launcher: the same request
      kill(child, signal);
      usleep(20'000);
    }
    const bool in_time = std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(900);
    if (signal == SIGINT || in_time) CHECK(waitpid(child, &status, WNOHANG) == 0);  // else the machine was too busy
    if (signal == SIGTERM) usleep(1'100'000);
    kill(child, signal);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 128 + signal));
    for (const int end : {ready[0], ready[1], seen[0], seen[1]}) close(end);
  }
}

TEST_CASE("a lost terminal asks a program to stop, however often it says so, except under nohup") {
  for (const bool nohup : {false, true}) {
    int ready[2], go[2], seen[2];
    REQUIRE((pipe(ready) == 0 && pipe(go) == 0 && pipe(seen) == 0));
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGHUP, nohup ? SIG_IGN : SIG_DFL);
      io::catch_stop_signals();
      char byte = 'r';
      if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
      for (int i = 0; i < (nohup ? 20 : 10'000) && !io::stop_asked(); ++i) usleep(1000);
      byte = io::stop_asked() ? 's' : 'r';
      if (write(seen[1], &byte, 1) != 1) _exit(1);
      for (;;) usleep(1000);
    }
    char byte = 0;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    kill(child, SIGHUP);
    REQUIRE(write(go[1], &byte, 1) == 1);
    REQUIRE(read(seen[0], &byte, 1) == 1);
    CHECK(byte == (nohup ? 'r' : 's'));
    kill(child, SIGHUP);
    usleep(20'000);
    int status = 0;
    CHECK(waitpid(child, &status, WNOHANG) == 0);  // it may go on saving
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, &status, 0) == child);
    for (const int end : {ready[0], ready[1], go[0], go[1], seen[0], seen[1]}) close(end);
  }
}
