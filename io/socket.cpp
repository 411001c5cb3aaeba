#include "io/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "core/error.h"

namespace mantissa::distributed {
namespace {

std::string reason() { return std::strerror(errno); }

struct FreeAddresses {
  void operator()(addrinfo* a) const { ::freeaddrinfo(a); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// Without addresses if the name is not known yet: a cluster's names may come later than its programs.
Addresses resolve(const Address& a, int flags, std::string* why) {
  check(a.port >= 0 && a.port <= 65535, "the port ", a.port, " is not between 0 and 65535");
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(a.host.c_str(), std::to_string(a.port).c_str(), &hints, &found);
  if (status == 0) return Addresses(found);
  *why = concat("the address ", a.host, " is unknown: ", ::gai_strerror(status));
  check(status == EAI_AGAIN || status == EAI_NONAME || status == EAI_NODATA, *why);
  return {};
}

void set(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); }

bool wait_for(int fd, short events, const Deadline& by) {
  while (true) {
    pollfd p{fd, events, 0};
    const int n = ::poll(&p, 1, by.milliseconds());
    if (n > 0) return true;
    if (n == 0 && by.over()) return false;
    if (n < 0 && errno != EINTR) fail("waiting for a connection failed: ", reason());
  }
}

// One attempt. Returns a closed Socket if nothing listens there (yet).
Socket try_connect(const addrinfo& a, const Deadline& by) {
  Socket s(::socket(a.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s.is_open() && errno == EAFNOSUPPORT) return {};  // IPv6 is off: another address may do
  check(s.is_open(), "a socket cannot be made: ", reason());
  if (::connect(s.fd(), a.ai_addr, a.ai_addrlen) == 0) return s;
  if (errno != EINPROGRESS || !wait_for(s.fd(), POLLOUT, by)) return {};
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(s.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return {};
  return s;
}

}  // namespace

int Deadline::milliseconds() const {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp(left, milliseconds(0), milliseconds(86'400'000)).count());
}

std::string to_string(const Address& a) { return concat(a.host, ":", a.port); }

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Socket::send(const void* bytes, std::size_t n, const Deadline& by, const std::string& peer) const {
  const char* p = static_cast<const char*>(bytes);
  while (n > 0) {
    const ssize_t sent = ::send(fd_, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      p += sent;
      n -= static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      check(wait_for(fd_, POLLOUT, by), peer, " takes no data");
    } else if (errno != EINTR) {
      fail("the connection to ", peer, " is lost: ", reason());
    }
  }
}

bool Socket::receive(void* bytes, std::size_t n, const Deadline& by, const std::string& peer) const {
  char* p = static_cast<char*>(bytes);
  for (std::size_t done = 0; done < n;) {
    const ssize_t got = ::recv(fd_, p + done, n - done, MSG_DONTWAIT);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (got == 0) {
      check(done == 0, peer, " has closed the connection in the middle of a message");
      return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      check(wait_for(fd_, POLLIN, by), peer, " does not answer");
    } else if (errno != EINTR) {
      fail("the connection to ", peer, " is lost: ", reason());
    }
  }
  return true;
}

Socket listen_on(const Address& at, int backlog) {
  std::string why;
  const Addresses found = resolve(at, AI_PASSIVE, &why);
  for (const addrinfo* a = found.get(); a; a = a->ai_next) {
    Socket s(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (s.is_open()) {
      set(s.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
      if (::bind(s.fd(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(s.fd(), backlog) == 0) return s;
    }
    why = reason();
  }
  fail("cannot listen on ", to_string(at), ": ", why);
}

Socket connect_to(const Address& to, const Deadline& by) {
  Addresses found;
  while (true) {
    std::string why = concat("nobody answers at ", to_string(to));
    if (!found) found = resolve(to, 0, &why);
    for (const addrinfo* a = found.get(); a; a = a->ai_next) {
      Socket s = try_connect(*a, by);
      if (!s.is_open()) continue;
      tune(s);
      return s;
    }
    check(!by.over(), why);
    std::this_thread::sleep_for(std::chrono::milliseconds(found ? 20 : 500));
  }
}

Socket accept_from(const Socket& listener, const Deadline& by) {
  while (true) {
    Socket s(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (s.is_open()) {
      tune(s);
      return s;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(listener.fd(), POLLIN, by)) return {};
    } else if (errno == EMFILE || errno == ENFILE) {
      fail("cannot accept a connection: ", reason());
    } else if (by.over()) {  // errors of a connection before it is accepted are ignored
      return {};
    }
  }
}

Address local_address(const Socket& socket) {
  sockaddr_storage a{};
  socklen_t size = sizeof a;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  check(::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&a), &size) == 0 &&
            ::getnameinfo(reinterpret_cast<sockaddr*>(&a), size, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV) == 0,
        "the address of a socket is unknown: ", reason());
  return {host, std::stoi(port)};
}

void tune(const Socket& s) {
  set(s.fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  set(s.fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set(s.fd(), IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(s.fd(), IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(s.fd(), IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace mantissa::distributed
