// Rendezvous of the processes of a run: a key-value store that rank 0 serves over TCP, like PyTorch's TCPStore. It also
// records the first failure, so that every rank can report it.
//
// Clients must know the job's token, 128 random bits; otherwise the connection is closed at its first message. The
// server listens on the given interface only, reads messages of bounded length only, stores a bounded number of bytes,
// and gives a connection ten seconds to authenticate. Nothing is encrypted: the network between the machines of a run
// must be trusted, as for PyTorch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "io/socket.h"

namespace mantissa::distributed {

using Token = std::array<std::uint8_t, 16>;
Token parse_token(const std::string& hex);  // 32 hexadecimal digits, else Error
bool same(const Token& a, const Token& b);  // constant-time comparison

struct StoreLimits {
  static constexpr std::size_t key = 256, value = std::size_t{1} << 20, total = std::size_t{64} << 20, keys = 1 << 16;
  static constexpr int strangers = 128;  // maximum number of unauthenticated connections
  static constexpr std::chrono::seconds introduction{10};
  static constexpr std::chrono::seconds farewell{5};  // how long a closing server stays for its clients
};

class StoreServer {
 public:
  StoreServer(Socket listener, int ranks, const Token& token);
  ~StoreServer();  // waits briefly for the ranks to leave: they query failures here
  StoreServer(const StoreServer&) = delete;

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

// A rank's connection to the server. Thread-safe; calls are serialised.
class TcpStore {
 public:
  // Retries until the deadline. Error: no server, wrong token, different number of ranks, duplicate rank.
  TcpStore(const Address& server, int rank, int ranks, const Token& token, const Deadline& by);
  ~TcpStore();  // signs off: disconnecting without that counts as a failure
  TcpStore(const TcpStore&) = delete;

  void set(const std::string& key, const std::string& value, const Deadline& by);
  std::string get(const std::string& key, const Deadline& by);  // waits until the key is set
  std::int64_t add(const std::string& key, std::int64_t n, const Deadline& by);  // returns the sum; starts at 0

  // Only the first report is kept. The server itself reports a rank that disconnects without signing off.
  void report_failure(const std::string& text) noexcept;
  std::string failure(const Deadline& by) noexcept;  // waits for a failure; empty if there is none

  Address local() const { return local_address(socket_); }  // the local interface of the connection to the server

 private:
  std::string ask(char what, const std::string& key, const std::string& value, const Deadline& by);

  std::mutex mutex_;
  Socket socket_;
  std::string server_;
};

}  // namespace mantissa::distributed
