#include "io/exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace mantissa::distributed {
namespace {

constexpr std::size_t spans_at_once = 16;
// Maximum bytes per system call: so both directions of a connection alternate, and pieces processed in between are
// still in the cache.
constexpr std::size_t bytes_at_once = std::size_t{1} << 18;

// The first spans of a queue, as many as fit into one call.
std::size_t gather(const std::deque<iovec>& line, std::array<iovec, spans_at_once>& first) {
  std::size_t n = 0, bytes = 0;
  while (n < line.size() && n < spans_at_once && bytes < bytes_at_once) {
    first[n] = line[n];
    first[n].iov_len = std::min(first[n].iov_len, bytes_at_once - bytes);
    bytes += first[n++].iov_len;
  }
  return n;
}

// Removes what was transferred from the queue; calls through() for each completed span.
template <class F> void pass(std::deque<iovec>& line, std::size_t moved, const F& through) {
  while (moved > 0) {
    iovec& span = line.front();
    const std::size_t n = std::min(moved, span.iov_len);
    span.iov_base = static_cast<char*>(span.iov_base) + n;
    span.iov_len -= n;
    moved -= n;
    if (span.iov_len > 0) continue;
    line.pop_front();
    through();
  }
}

}  // namespace

Exchange::Exchange(const std::vector<Socket>& sockets) : peers_(sockets.size()) {
  for (std::size_t i = 0; i < sockets.size(); ++i) peers_[i].fd = sockets[i].fd();
}

void Exchange::send(int peer, const void* bytes, std::size_t n) {
  if (n > 0) peers_[static_cast<std::size_t>(peer)].out.push_back({const_cast<void*>(bytes), n});
}
void Exchange::receive(int peer, void* bytes, std::size_t n) {
  if (n > 0) peers_[static_cast<std::size_t>(peer)].in.push_back({bytes, n});
}

bool Exchange::write(Peer& p, int peer) {
  if (p.out.empty()) return false;
  std::array<iovec, spans_at_once> first;
  msghdr message{};
  message.msg_iov = first.data();
  message.msg_iovlen = gather(p.out, first);
  const ssize_t sent = ::sendmsg(p.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (sent < 0) throw LostPeer(peer, concat("is lost: ", std::strerror(errno)));
  pass(p.out, static_cast<std::size_t>(sent), [] {});
  return sent > 0;
}

bool Exchange::read(Peer& p, int peer, const std::function<void(int)>& came) {
  if (p.in.empty()) return false;
  std::array<iovec, spans_at_once> first;
  msghdr message{};
  message.msg_iov = first.data();
  message.msg_iovlen = gather(p.in, first);
  const ssize_t got = ::recvmsg(p.fd, &message, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got < 0) throw LostPeer(peer, concat("is lost: ", std::strerror(errno)));
  if (got == 0) throw LostPeer(peer, "has closed its connection");
  pass(p.in, static_cast<std::size_t>(got), [&] { came(peer); });
  return true;
}

void Exchange::run(const Deadline& by, const std::function<void(int)>& came) {
  std::vector<pollfd> polled(peers_.size());
  while (true) {
    bool moved = false;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      moved |= write(peers_[i], static_cast<int>(i));
      moved |= read(peers_[i], static_cast<int>(i), came);
    }
    if (moved) continue;
    const Peer* waiting = nullptr;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const Peer& p = peers_[i];
      const int events = (p.in.empty() ? 0 : POLLIN) | (p.out.empty() ? 0 : POLLOUT);
      polled[i] = {events ? p.fd : -1, static_cast<short>(events), 0};
      if (events && (!waiting || (waiting->in.empty() && !p.in.empty()))) waiting = &p;
    }
    if (!waiting) return;
    const int n = ::poll(polled.data(), polled.size(), by.milliseconds());
    if (n < 0 && errno != EINTR) fail("waiting for the other ranks failed: ", std::strerror(errno));
    if (n == 0 && by.over()) throw LostPeer(static_cast<int>(waiting - peers_.data()), "did not come in time");
  }
}

}  // namespace mantissa::distributed
