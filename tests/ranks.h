// Ranks of a process group, run as threads of the test, on a port of their own.
#pragma once

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

}  // namespace mantissa::test
