// Bytes between this process and several others, all at once: each has a line of spans that go out and a line of spans
// that come in. Whatever can move moves, so no order of sends and receives can block.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "io/socket.h"

namespace mantissa::distributed {

// A peer that is gone, or nobody who did anything before the deadline.
class LostPeer : public std::exception {
 public:
  LostPeer(int peer, std::string what) : peer(peer), text(std::move(what)) {}
  const char* what() const noexcept override { return text.c_str(); }
  int peer;
  std::string text;  // "has closed its connection"
};

class Exchange {
 public:
  // sockets[i] leads to peer i; a closed one to nobody.
  explicit Exchange(const std::vector<Socket>& sockets);

  // The memory must stay as it is until run() is back; what is received may be used when it has come.
  void send(int peer, const void* bytes, std::size_t n);
  void receive(int peer, void* bytes, std::size_t n);
  // Until both lines of every peer are empty. came(peer) is called for each span that was received, and may add to the
  // lines. Throws LostPeer, and what came() throws.
  void run(const Deadline& by, const std::function<void(int peer)>& came);

 private:
  struct Peer {
    int fd = -1;
    std::deque<iovec> out, in;
  };
  bool write(Peer& p, int peer);
  bool read(Peer& p, int peer, const std::function<void(int)>& came);
  std::vector<Peer> peers_;
};

}  // namespace mantissa::distributed
