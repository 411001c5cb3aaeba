// Ranks of a process group, on a port of their own, run as threads of the test or as processes.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "io/process_group.h"
#include "io/socket.h"

namespace mantissa::test {

inline const std::string job_token = "00112233445566778899aabbccddeeff";

inline distributed::GroupOptions local_options(int size, int port) {
  distributed::GroupOptions o{.size = size, .port = port, .token = job_token};
  o.timeout = o.rendezvous_timeout = std::chrono::seconds(20);
  return o;
}

// Calls f(group) as each rank; returns the message that each threw, or "". `change(options)` may alter a rank's
// options.
inline std::vector<std::string> errors_of_ranks(
    int size, const std::function<void(distributed::ProcessGroup&)>& f,
    const std::function<void(distributed::GroupOptions&)>& change = [](distributed::GroupOptions&) {}) {
  using namespace distributed;
  Socket listener = listen_on({"127.0.0.1", 0}, 128);
  const int port = local_address(listener).port;
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  const int store_socket = listener.release();
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      GroupOptions o = local_options(size, port);
      o.rank = rank;
      if (rank == 0) o.store_socket = store_socket;
      try {
        change(o);
        const auto group = make_group(o);
        f(*group);
      } catch (const std::exception& e) { errors[static_cast<std::size_t>(rank)] = e.what(); }
    });
  }
  for (std::thread& t : threads) t.join();
  return errors;
}

// The same if no error is expected: the first error of any rank, or "".
inline std::string error_of_ranks(int size, const std::function<void(distributed::ProcessGroup&)>& f) {
  for (const std::string& e : errors_of_ranks(size, f))
    if (!e.empty()) return e;
  return "";
}

// The same as processes, which may use a GPU each. The test itself must have used no device and made no thread.
inline std::vector<std::string> errors_of_processes(
    int size, const std::function<void(distributed::ProcessGroup&)>& f,
    const std::function<void(distributed::GroupOptions&)>& change = [](distributed::GroupOptions&) {}) {
  using namespace distributed;
  Socket listener = listen_on({"127.0.0.1", 0}, 128);
  GroupOptions o = local_options(size, local_address(listener).port);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::pair<pid_t, int>> children;  // with the end of a pipe from each
  for (o.rank = 0; o.rank < size; ++o.rank) {
    int ends[2];
    if (::pipe(ends) != 0) return {"no pipe"};
    if (const pid_t child = ::fork(); child != 0) {
      ::close(ends[1]);
      children.emplace_back(child, ends[0]);
      continue;
    }
    std::string error;
    try {
      if (o.rank == 0) o.store_socket = listener.release();
      else listener.close();
      change(o);
      const auto group = make_group(o);
      f(*group);
    } catch (const std::exception& e) { error = e.what(); }
    (void)!::write(ends[1], error.data(), error.size());
    ::_exit(0);
  }
  listener.close();
  for (int r = 0; r < size; ++r) {
    const auto [child, pipe] = children[static_cast<std::size_t>(r)];
    std::string& error = errors[static_cast<std::size_t>(r)];
    char bytes[4096];
    for (ssize_t n; (n = ::read(pipe, bytes, sizeof bytes)) > 0;) error.append(bytes, static_cast<std::size_t>(n));
    ::close(pipe);
    int status = -1;
    if (::waitpid(child, &status, 0) != child || status != 0)
      error += "the process ended with status " + std::to_string(status);
  }
  return errors;
}

}  // namespace mantissa::test
