// TCP sockets with a deadline on every operation, used by the processes of a training run (io/process_group.h). Errors
// are thrown as Error and state the operation and the peer. Sockets are close-on-exec, and never raise SIGPIPE.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

namespace mantissa::distributed {

class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds from_now) : at_(std::chrono::steady_clock::now() + from_now) {}
  bool over() const { return std::chrono::steady_clock::now() >= at_; }
  int milliseconds() const;  // remaining, for poll(): at least 0, at most a day
  friend auto operator<=>(const Deadline&, const Deadline&) = default;

 private:
  std::chrono::steady_clock::time_point at_;
};

struct Address {
  std::string host;  // host name or numeric address
  int port = 0;
};
std::string to_string(const Address& a);  // "127.0.0.1:29500"

class Socket {  // owns a file descriptor
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~Socket() { close(); }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close();
  int release() { return std::exchange(fd_, -1); }  // hands the descriptor over

  // Transfers all bytes or throws Error; `peer` names the other side in it. receive returns false if the other side
  // closed the connection before the first byte.
  void send(const void* bytes, std::size_t n, const Deadline& by, const std::string& peer) const;
  bool receive(void* bytes, std::size_t n, const Deadline& by, const std::string& peer) const;

 private:
  int fd_ = -1;
};

// Port 0: a free one. Listens on this interface only.
Socket listen_on(const Address& at, int backlog);
// Retries until the deadline while nothing listens there.
Socket connect_to(const Address& to, const Deadline& by);
// The next connection; a closed Socket if there is none by the deadline.
Socket accept_from(const Socket& listener, const Deadline& by);
Address local_address(const Socket& socket);  // numeric

// Disables delays for small messages and enables keep-alive: a dead peer machine is detected within half a minute.
void tune(const Socket& socket);

}  // namespace mantissa::distributed
