// TCP sockets with a deadline on everything: what the processes of a training run talk through (io/process_group.h).
// Errors are thrown as Error and say what was attempted with whom. All sockets are closed in programs that this one
// starts, and never raise SIGPIPE.
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
  int milliseconds() const;  // left, for poll(): at least 0, at most a day
  friend auto operator<=>(const Deadline&, const Deadline&) = default;

 private:
  std::chrono::steady_clock::time_point at_;
};

struct Address {
  std::string host;  // a name or a number
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

  // All of the bytes or an Error; `peer` is how it names the other side. False from receive: the other side has closed
  // the connection before the first byte.
  void send(const void* bytes, std::size_t n, const Deadline& by, const std::string& peer) const;
  bool receive(void* bytes, std::size_t n, const Deadline& by, const std::string& peer) const;

 private:
  int fd_ = -1;
};

// Port 0: one that is free. Only this interface is listened on.
Socket listen_on(const Address& at, int backlog);
// Tries again until the deadline while nobody listens there.
Socket connect_to(const Address& to, const Deadline& by);
// The next connection; a closed Socket when there is none at the deadline.
Socket accept_from(const Socket& listener, const Deadline& by);
Address local_address(const Socket& socket);  // in numbers

// Without delays for small messages; who waits for data is told within half a minute that the other machine is gone.
void tune(const Socket& socket);

}  // namespace mantissa::distributed
