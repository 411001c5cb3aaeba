// A connection starts with a Hello. Then the client sends one request at a time: a Question, key, value; the server
// responds with an Answer and bytes.
#include "io/tcp_store.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "core/error.h"

namespace mantissa::distributed {
namespace {

constexpr std::uint32_t store_magic = 0x4d4e5331;  // identifies the protocol version and byte order
const std::string failure_key(1, '\0');            // clients' keys are not empty and do not start like this

struct Hello {
  std::uint32_t magic, ranks, rank, unused;
  Token token;
};
struct Question {
  char what;  // 's'et, 'g'et, 'a'dd, 'f'ailure to note, 'w'hich failure was noted, 'b'ye
  char unused[3];
  std::uint32_t key, value;  // bytes that follow
};
struct Answer {
  std::uint32_t refused, bytes;
};

template <class T> T read_as(const std::string& bytes) {
  T t;
  std::memcpy(&t, bytes.data(), sizeof t);
  return t;
}
template <class T> std::string bytes_of(const T& t) { return {reinterpret_cast<const char*>(&t), sizeof t}; }

}  // namespace

Token parse_token(const std::string& hex) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  Token token;
  bool good = hex.size() == 2 * token.size();
  for (std::size_t i = 0; good && i < token.size(); ++i) {
    const int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
    good = high >= 0 && low >= 0;
    if (good) token[i] = static_cast<std::uint8_t>(16 * high + low);
  }
  check(good,
        "the token of a job is 32 hexadecimal digits, the same for all its ranks; mantissa_run makes one, and so "
        "does MANTISSA_JOB_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')");
  return token;
}

bool same(const Token& a, const Token& b) {
  int difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

struct StoreServer::Loop {
  struct Client {
    Socket socket;
    int rank = -1;  // not authenticated yet
    Deadline introduced_by{StoreLimits::introduction};
    std::string in, out, waits_for;
    bool waits = false, closing = false, said_bye = false;
  };

  Loop(Socket l, int n, const Token& t) : listener(std::move(l)), ranks(n), token(t), wake(::eventfd(0, EFD_CLOEXEC)) {
    check(wake.is_open(), "cannot make an event: ", std::strerror(errno));
    thread = std::thread([this] {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are handled by the program's own threads
      run();
    });
  }
  ~Loop() {
    const std::uint64_t one = 1;
    while (::write(wake.fd(), &one, sizeof one) < 0 && errno == EINTR) {}
    thread.join();
  }

  void run() {
    std::vector<pollfd> polled;
    while (!ending || !(ending->over() || std::ranges::none_of(clients, [](const Client& c) { return c.rank >= 0; }))) {
      polled.assign({{ending ? -1 : wake.fd(), POLLIN, 0}, {listener.fd(), POLLIN, 0}});
      for (const Client& c : clients)
        polled.push_back({c.socket.fd(), static_cast<short>(c.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
      if (::poll(polled.data(), polled.size(), wait()) < 0 && errno != EINTR) return;
      if (polled[0].revents && !ending) ending.emplace(StoreLimits::farewell);
      std::size_t i = 2;
      for (Client& c : clients) {
        const short events = polled[i++].revents;
        if (events & (POLLIN | POLLHUP | POLLERR)) read(c);
        if (!c.closing && events & POLLOUT) write(c);
      }
      if (polled[1].revents) accept();
      for (Client& c : clients)
        if (c.rank < 0 && c.introduced_by.over()) c.closing = true;
      drop_closed();
    }
  }

  int wait() const {
    int most = ending ? ending->milliseconds() : -1;
    for (const Client& c : clients) {
      if (c.rank < 0) most = most < 0 ? c.introduced_by.milliseconds() : std::min(most, c.introduced_by.milliseconds());
    }
    return most;
  }

  void accept() {
    try {
      Socket s = accept_from(listener, Deadline(std::chrono::milliseconds(0)));
      if (!s.is_open()) return;
      const auto strangers = std::ranges::count_if(clients, [](const Client& c) { return c.rank < 0; });
      if (strangers < StoreLimits::strangers) clients.emplace_back().socket = std::move(s);
    } catch (const Error&) {  // too many open files: pending connections are accepted when others are closed
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  void read(Client& c) {
    char bytes[1 << 16];
    const ssize_t n = ::recv(c.socket.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      c.closing = true;
      return;
    }
    c.in.append(bytes, static_cast<std::size_t>(n));
    if (c.rank < 0) introduce(c);
    else question(c);
  }

  void introduce(Client& c) {
    // an unauthenticated client's first four bytes suffice to detect another protocol
    if (c.in.size() >= 4 && read_as<std::uint32_t>(c.in) != store_magic) c.closing = true;
    if (c.closing || c.in.size() < sizeof(Hello)) return;
    const Hello hello = read_as<Hello>(c.in);
    const auto there = [&](const Client& o) { return o.rank == static_cast<int>(hello.rank) && !o.closing; };
    if (!same(hello.token, token)) refuse(c, "the token is another: MANTISSA_JOB_TOKEN differs between the ranks");
    else if (hello.ranks != static_cast<std::uint32_t>(ranks))
      refuse(c, concat("the run has ", ranks, " ranks, not ", hello.ranks, ": WORLD_SIZE differs between them"));
    else if (hello.rank >= hello.ranks || std::ranges::any_of(clients, there))
      refuse(c, concat("there is a rank ", hello.rank, " already"));
    else {
      c.rank = static_cast<int>(hello.rank);
      c.in.erase(0, sizeof(Hello));
      answer(c, "");
      if (!c.in.empty()) question(c);
    }
  }

  void question(Client& c) {
    if (c.waits || !c.out.empty()) c.closing = true;  // it did not wait for the answer
    if (c.closing || c.in.size() < sizeof(Question)) return;
    const Question q = read_as<Question>(c.in);
    if (q.key > StoreLimits::key || q.value > StoreLimits::value) {
      c.closing = true;
      return;
    }
    const std::size_t whole = sizeof q + q.key + q.value;
    if (c.in.size() < whole) return;
    const std::string key = c.in.substr(sizeof q, q.key), value = c.in.substr(sizeof q + q.key, q.value);
    c.in.erase(0, whole);
    if (!c.in.empty()) c.closing = true;
    else if (q.what == 'b') leave(c);
    else if (q.what == 'f') fail_run(value), answer(c, "");
    else if (q.what == 'w') answer(c, table.contains(failure_key) ? table[failure_key] : left);
    else if (key.empty() || key[0] == '\0') c.closing = true;
    else if (q.what == 'g') get(c, key);
    else if (q.what == 's') set(c, key, value), answer(c, "");
    else if (q.what == 'a') add(c, key, value);
    else c.closing = true;
  }

  void leave(Client& c) {
    c.said_bye = c.closing = true;
    if (left.empty()) left = concat("rank ", c.rank, " has ended, or left the group");
  }
  void get(Client& c, const std::string& key) {
    if (const auto it = table.find(key); it != table.end()) return answer(c, it->second);
    c.waits = true;
    c.waits_for = key;
  }
  void set(Client& c, const std::string& key, const std::string& value) {
    std::string& place = table[key];
    held += value.size();
    held -= place.size();
    place = value;
    if (held > StoreLimits::total || table.size() > StoreLimits::keys) {
      held -= place.size();
      table.erase(key);
      c.closing = true;
      return;
    }
    for (Client& other : clients) {
      if (!other.waits || other.waits_for != key) continue;
      other.waits = false;
      answer(other, value);
    }
  }
  void add(Client& c, const std::string& key, const std::string& value) {
    std::string& now = table[key];
    if (value.size() != sizeof(std::uint64_t) || (!now.empty() && now.size() != value.size())) {
      c.closing = true;
      return;
    }
    const std::uint64_t before = now.empty() ? 0 : read_as<std::uint64_t>(now);
    const std::string sum = bytes_of(before + read_as<std::uint64_t>(value));
    set(c, key, sum);
    answer(c, sum);
  }
  void fail_run(const std::string& text) {
    if (table.contains(failure_key)) return;
    Client nobody;
    set(nobody, failure_key, text);
  }

  void answer(Client& c, const std::string& bytes, bool refused = false) {
    c.out += bytes_of(Answer{refused, static_cast<std::uint32_t>(bytes.size())}) + bytes;
    write(c);
  }
  void refuse(Client& c, const std::string& why) {
    answer(c, why, true);
    c.closing = true;
  }
  void write(Client& c) {
    while (!c.out.empty()) {
      const ssize_t n = ::send(c.socket.fd(), c.out.data(), c.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EAGAIN) c.closing = true;
      if (n <= 0) return;
      c.out.erase(0, static_cast<std::size_t>(n));
    }
  }
  void drop_closed() {
    for (auto c = clients.begin(); c != clients.end();) {
      if (!c->closing) {
        ++c;
        continue;
      }
      const int rank = c->said_bye ? -1 : c->rank;
      c = clients.erase(c);
      if (rank >= 0) fail_run(concat("rank ", rank, " is gone without a message: it crashed or was killed"));
    }
  }

  const Socket listener;
  const int ranks;
  const Token token;
  const Socket wake;
  std::list<Client> clients;
  std::map<std::string, std::string> table;
  std::size_t held = 0;
  std::string left;  // the first rank that left, which others may be waiting for
  std::optional<Deadline> ending;
  std::thread thread;
};

StoreServer::StoreServer(Socket listener, int ranks, const Token& token)
    : loop_(std::make_unique<Loop>(std::move(listener), ranks, token)) {}
StoreServer::~StoreServer() = default;

TcpStore::TcpStore(const Address& server, int rank, int ranks, const Token& token, const Deadline& by)
    : server_(concat("the store of rank 0 at ", to_string(server))) {
  const Hello hello{store_magic, static_cast<std::uint32_t>(ranks), static_cast<std::uint32_t>(rank), 0, token};
  while (true) {
    socket_ = connect_to(server, by);
    socket_.send(&hello, sizeof hello, by, server_);
    Answer answer{};
    bool answered = false;
    try {
      answered = socket_.receive(&answer, sizeof answer, by, server_);
    } catch (const Error&) {
      if (by.over()) throw;
    }
    if (answered) {
      check(answer.bytes <= StoreLimits::value, server_, " speaks another protocol");
      std::string text(answer.bytes, '\0');
      if (!text.empty()) socket_.receive(text.data(), text.size(), by, server_);
      check(answer.refused == 0, server_, " refuses rank ", rank, ": ", text);
      return;
    }
    check(!by.over(), server_, " closes the connection");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the server was full, or is another program
  }
}

TcpStore::~TcpStore() {
  try {
    const Question bye{'b', {}, 0, 0};
    if (socket_.is_open()) socket_.send(&bye, sizeof bye, Deadline(std::chrono::seconds(1)), server_);
  } catch (const Error&) {  // the server itself is gone
  }
}

std::string TcpStore::ask(char what, const std::string& key, const std::string& value, const Deadline& by) {
  check(key.size() <= StoreLimits::key && value.size() <= StoreLimits::value, "TcpStore: a key has at most ",
        static_cast<std::int64_t>(StoreLimits::key), " bytes and a value ",
        static_cast<std::int64_t>(StoreLimits::value));
  const std::lock_guard lock(mutex_);
  check(socket_.is_open(), server_, " was given up after an earlier failure");
  try {
    const Question q{what, {}, static_cast<std::uint32_t>(key.size()), static_cast<std::uint32_t>(value.size())};
    const std::string message = bytes_of(q) + key + value;
    socket_.send(message.data(), message.size(), by, server_);
    Answer answer{};
    check(socket_.receive(&answer, sizeof answer, by, server_), server_, " is gone");
    check(answer.bytes <= StoreLimits::value, server_, " speaks another protocol");
    std::string bytes(answer.bytes, '\0');
    if (!bytes.empty()) check(socket_.receive(bytes.data(), bytes.size(), by, server_), server_, " is gone");
    return bytes;
  } catch (const Error&) {
    socket_.close();  // a late answer would be taken for that of the next request
    throw;
  }
}

void TcpStore::set(const std::string& key, const std::string& value, const Deadline& by) {
  check(!key.empty() && key[0] != '\0', "TcpStore: a key must not be empty");
  ask('s', key, value, by);
}
std::string TcpStore::get(const std::string& key, const Deadline& by) {
  check(!key.empty() && key[0] != '\0', "TcpStore: a key must not be empty");
  return ask('g', key, "", by);
}
std::int64_t TcpStore::add(const std::string& key, std::int64_t n, const Deadline& by) {
  check(!key.empty() && key[0] != '\0', "TcpStore: a key must not be empty");
  const std::string sum = ask('a', key, bytes_of(n), by);
  check(sum.size() == sizeof n, server_, " speaks another protocol");
  return read_as<std::int64_t>(sum);
}
void TcpStore::report_failure(const std::string& text) noexcept {
  try {
    ask('f', "", text.substr(0, 4096), Deadline(std::chrono::seconds(2)));
  } catch (const Error&) {  // the caller of the failed call learns of it anyway
  }
}
std::string TcpStore::failure(const Deadline& by) noexcept {
  try {
    while (true) {
      const std::string text = ask('w', "", "", Deadline(std::chrono::seconds(2)));
      if (!text.empty() || by.over()) return text;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  } catch (const Error&) { return {}; }
}

}  // namespace mantissa::distributed
