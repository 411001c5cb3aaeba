// Where the processes of a run find each other: a table of names and values that rank 0 serves over TCP, as PyTorch's
// TCPStore. It also remembers the first failure, so that every rank can say which one it was.
//
// Whoever connects must know the job's token, 128 random bits; else the connection is closed at its first message. The
// server listens on the interface that it is told and no other, reads messages of bounded length only, keeps a bounded
// number of bytes, and gives a connection ten seconds to introduce itself. Nothing is encrypted: the network between
// the machines of a run must be trusted, as for PyTorch.
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
bool same(const Token& a, const Token& b);  // in a time that does not tell how much of them is equal

struct StoreLimits {
  static constexpr std::size_t key = 256, value = std::size_t{1} << 20, total = std::size_t{64} << 20, keys = 1 << 16;
  static constexpr int strangers = 128;  // connections that have not introduced themselves
  static constexpr std::chrono::seconds introduction{10};
  static constexpr std::chrono::seconds farewell{5};  // that a server which is to end stays for those who are there
};

class StoreServer {
 public:
  StoreServer(Socket listener, int ranks, const Token& token);
  ~StoreServer();  // waits for the ranks to leave, a little: what went wrong they ask here
  StoreServer(const StoreServer&) = delete;

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

// A rank's connection to the server. Calls may come from several threads, and wait for each other.
class TcpStore {
 public:
  // Tries again until the deadline. Error: nobody there, another token, another number of ranks, a rank twice.
  TcpStore(const Address& server, int rank, int ranks, const Token& token, const Deadline& by);
  ~TcpStore();  // takes leave: to go without that is a failure
  TcpStore(const TcpStore&) = delete;

  void set(const std::string& key, const std::string& value, const Deadline& by);
  std::string get(const std::string& key, const Deadline& by);  // waits until somebody has set it
  std::int64_t add(const std::string& key, std::int64_t n, const Deadline& by);  // n more than before, or than 0

  // The first of all reports counts. What the server notices by itself, a rank that is gone without leave, is one.
  void report_failure(const std::string& text) noexcept;
  std::string failure(const Deadline& by) noexcept;  // waits for one; empty when there is none

  Address local() const { return local_address(socket_); }  // the interface that leads to the server

 private:
  std::string ask(char what, const std::string& key, const std::string& value, const Deadline& by);

  std::mutex mutex_;
  Socket socket_;
  std::string server_;
};

}  // namespace mantissa::distributed
