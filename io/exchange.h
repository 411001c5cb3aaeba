// Concurrent transfers between this process and several peers: each peer has a queue of spans to send and a queue of
// spans to receive. All transfers progress whenever possible, so no order of sends and receives can deadlock.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "io/socket.h"

namespace mantissa::distributed {

// A peer is gone, or nothing was transferred before the deadline.
class LostPeer : public std::exception {
 public:
  LostPeer(int peer, std::string what) : peer(peer), text(std::move(what)) {}
  const char* what() const noexcept override { return text.c_str(); }
  int peer;
  std::string text;  // "has closed its connection"
};

class Exchange {
 public:
  // sockets[i] is connected to peer i; closed: no such peer.
  explicit Exchange(const std::vector<Socket>& sockets);

  // The memory must not be changed until run() returns; received data may be used once reported.
  void send(int peer, const void* bytes, std::size_t n);
  void receive(int peer, void* bytes, std::size_t n);
  // Runs until both queues of every peer are empty. came(peer) is called for each span received, and may add to the
  // queues. Throws LostPeer, and whatever came() throws.
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
