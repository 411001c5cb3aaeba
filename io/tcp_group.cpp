// Implements the collectives on bytes. Every call starts with a Header from each rank to all others that describes the
// call: mismatches are detected before any data are used.
//
// all_reduce splits the elements into one segment per rank. A rank receives its segment from all others, sums it in
// rank order, piece by piece as pieces arrive, and sends each finished piece to all: the traffic of a ring, 2 (n - 1) /
// n of the tensor in and out, but in one step instead of n - 1, and with a summation order that does not depend on an
// element's position. Short tensors are sent to all ranks whole, in half the time. In a broadcast, too, the root sends
// each rank one segment, which that rank passes on.
#include "io/tcp_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/parallel.h"
#include "io/call_header.h"
#include "io/device_collectives.h"
#include "io/exchange.h"
#include "io/reduce.h"
#include "io/segment.h"
#include "io/tcp_store.h"

namespace mantissa::distributed {
namespace {

constexpr std::int64_t piece_bytes = 1 << 16;      // a few per rank fit in the L2 cache
constexpr std::size_t pieces_ahead = 4;            // maximum number waiting for slower ranks
constexpr std::int64_t short_bytes = 1 << 17;      // tensors up to this size are sent whole
static_assert(short_bytes <= piece_bytes * static_cast<std::int64_t>(pieces_ahead));

// A rank's part of a tensor [size, ...].
char* part_at(const Tensor& parts, int rank) {
  return static_cast<char*>(parts.raw_data()) + parts.nbytes() / parts.size(0) * rank;
}

// Several tensors as one sequence of elements.
class Line {
 public:
  explicit Line(std::span<const Tensor> xs)
      : size_(xs.empty() ? 1 : static_cast<std::int64_t>(size_of(xs[0].dtype()))) {
    for (const Tensor& x : xs) {
      if (x.numel() == 0) continue;
      parts_.push_back({static_cast<char*>(x.raw_data()), elements_, x.numel()});
      elements_ += x.numel();
    }
  }
  std::int64_t elements() const { return elements_; }

  // Calls f(memory, elements) for the parts of [begin, end), in order.
  template <class F> void each(std::int64_t begin, std::int64_t end, F&& f) const {
    if (begin >= end) return;
    const auto before = [](std::int64_t at, const Part& part) { return at < part.begin; };
    auto p = std::upper_bound(parts_.begin(), parts_.end(), begin, before) - 1;
    for (; begin < end; ++p) {
      const std::int64_t n = std::min(end, p->begin + p->count) - begin;
      f(p->memory + (begin - p->begin) * size_, n);
      begin += n;
    }
  }

 private:
  struct Part {
    char* memory;
    std::int64_t begin, count;
  };
  std::int64_t size_, elements_ = 0;
  std::vector<Part> parts_;
};

// Buffers for pieces of each rank's contribution, until those of all ranks have arrived. Memory is reused between
// calls.
class Staging {
 public:
  void prepare(int ranks) { memory_.resize(static_cast<std::size_t>(ranks) * pieces_ahead * piece_bytes / 8); }
  char* at(int rank, std::int64_t piece) {
    const auto slot = static_cast<std::size_t>(rank) * pieces_ahead + static_cast<std::size_t>(piece) % pieces_ahead;
    return reinterpret_cast<char*>(memory_.data()) + slot * piece_bytes;
  }

 private:
  std::vector<double> memory_;
};

class TcpGroup final : public ProcessGroup {
 public:
  explicit TcpGroup(const GroupOptions& o)
      : ProcessGroup(o.rank, o.size), timeout_(o.timeout), rendezvous_timeout_(o.rendezvous_timeout), nccl_(o.nccl),
        token_(parse_token(o.token)) {
    meet(&o);
  }
  // A subgroup of `whole`, which shares its store. This rank is members[rank].
  TcpGroup(const TcpGroup& whole, std::span<const int> members, int rank, int number)
      : ProcessGroup(rank, static_cast<int>(members.size())), timeout_(whole.timeout_),
        rendezvous_timeout_(whole.rendezvous_timeout_), nccl_(whole.nccl_), token_(whole.token_),
        server_(whole.server_), store_(whole.store_),
        key_(concat(whole.key_, "split ", number, " with rank ", members[0], ", ")),
        name_(concat(whole.name_, "the group of ranks")) {
    for (const int m : members) name_ += concat(m == members[0] ? " " : ", ", m);
    name_ += ": ";
    meet(nullptr);
  }
  ~TcpGroup() override { stop(); }

  void give_up(const std::string& why) noexcept override {
    store_->report_failure(why);
    const std::lock_guard lock(closing_);
    for (const Socket& s : sockets_)
      if (s.is_open()) ::shutdown(s.fd(), SHUT_RDWR);  // unblocks all pending operations, here and on the peers
  }

 private:
  void meet(const GroupOptions* whole_run);
  void join_store(const GroupOptions& o, const Deadline& by);
  void connect_all(const Deadline& by);

  // Runs f(exchange, deadline); a failure breaks the group.
  template <class F> void guarded(const Header& h, F&& f);
  // The same, with headers queued for all peers; `run` calls done(peer) for the data that follow.
  template <class F> void call(Header h, F&& f);
  void run(Exchange& x, const Deadline& by, const std::function<void(int)>& came);
  // A call whose data go from GPU to GPU: all ranks agree on it, then f(collectives).
  template <class F> void between_gpus(const Header& h, F&& f);
  void look_for_others();
  [[noreturn]] void broken(const std::string& what, bool known);
  template <class F> void each_other(F&& f) const {  // starting with the next rank, to spread the load
    for (int i = 1; i < size(); ++i) f((rank() + i) % size());
  }

  bool run_link(Device gpu) override;
  void run_barrier() override;
  void run_broadcast(std::span<const Tensor> xs, int root) override;
  void run_all_reduce(std::span<const Tensor> xs, ReduceOp op) override;
  void run_all_gather(const Tensor& out, const Tensor& x) override;
  void run_reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op) override;
  void run_gather(const Tensor& out, const Tensor& x, int root) override;
  void run_scatter(const Tensor& x, const Tensor& parts, int root) override;
  void run_all_to_all(const Tensor& out, const Tensor& x) override;
  void run_exchange(std::span<const Message> sends, std::span<const Message> receives) override;
  std::unique_ptr<ProcessGroup> run_split(std::span<const int> members, int number) override {
    const auto mine = std::ranges::find(members, rank()) - members.begin();
    return std::make_unique<TcpGroup>(*this, members, static_cast<int>(mine), number);
  }
  void gather_all(Kind kind, const Tensor& out, const Tensor& part);
  void reduce_whole(const Header& h, const Line& line);
  void reduce_segments(const Header& h, const Line& line, const Tensor* out);

  const std::chrono::milliseconds timeout_, rendezvous_timeout_;
  const bool nccl_;
  const Token token_;
  std::shared_ptr<StoreServer> server_;  // of rank 0
  std::shared_ptr<TcpStore> store_;
  std::string key_, name_;       // prefix of its keys in the store, and in messages; empty for the whole run
  std::vector<Socket> sockets_;  // one per rank; closed for this rank
  std::mutex closing_;           // of sockets_: give_up() may be called by another thread than the calls
  std::uint64_t calls_ = 0;                    // number of collective calls
  std::vector<std::uint64_t> sent_, received_;  // messages to and from each rank
  std::string broken_;  // why the group is unusable
  Header mine_;         // of the running call
  Deadline by_{std::chrono::milliseconds(0)};  // the same
  std::vector<Header> theirs_;
  std::vector<char> seen_;  // ranks whose header of the running call has arrived
  Staging staging_;
  std::unique_ptr<DeviceLink> link_;   // to the GPUs of the other ranks
  std::optional<Deadline> last_wait_;  // for the GPU, after another rank has gone
};

struct Greeting {  // the first message between two ranks
  std::uint32_t magic = group_magic, from = 0, to = 0, unused = 0;
  Token token{};
};

void TcpGroup::meet(const GroupOptions* whole_run) {
  const Deadline by(rendezvous_timeout_);
  try {
    if (whole_run) join_store(*whole_run, by);
    connect_all(by);
  } catch (Error& e) {
    e.add_outer_context(concat(name_, "rank ", rank(), " of ", size(), " did not find the others"));
    throw;
  }
  const auto ranks = static_cast<std::size_t>(size());
  staging_.prepare(size());
  theirs_.resize(ranks);
  seen_.resize(ranks);
  sent_.resize(ranks);
  received_.resize(ranks);
}

void TcpGroup::join_store(const GroupOptions& o, const Deadline& by) {
  const Address at{o.address, o.port};
  if (o.rank == 0) {
    Socket listener = o.store_socket >= 0 ? Socket(o.store_socket) : listen_on(at, 128);
    ::fcntl(listener.fd(), F_SETFD, FD_CLOEXEC);
    ::fcntl(listener.fd(), F_SETFL, ::fcntl(listener.fd(), F_GETFL) | O_NONBLOCK);
    server_ = std::make_shared<StoreServer>(std::move(listener), o.size, token_);
  }
  store_ = std::make_shared<TcpStore>(at, o.rank, o.size, token_, by);
}

// Each rank connects to lower ranks and accepts higher ones. Other connections are dropped.
void TcpGroup::connect_all(const Deadline& by) {
  const auto key_of = [&](int rank) { return concat(key_, "address of rank ", rank); };
  sockets_.resize(static_cast<std::size_t>(size()));
  const Socket listener = listen_on({store_->local().host, 0}, 128);
  const Address mine = local_address(listener);
  store_->set(key_of(rank()), concat(mine.port, " ", mine.host), by);
  for (int peer = 0; peer < rank(); ++peer) {
    const std::string text = store_->get(key_of(peer), by);
    const std::size_t space = text.find(' ');
    check(space != text.npos && space <= 5, "the address of rank ", peer, " makes no sense");
    Socket s = connect_to({text.substr(space + 1), std::atoi(text.c_str())}, by);
    const Greeting greeting{
        .from = static_cast<std::uint32_t>(rank()), .to = static_cast<std::uint32_t>(peer), .token = token_};
    s.send(&greeting, sizeof greeting, by, concat("rank ", peer));
    sockets_[static_cast<std::size_t>(peer)] = std::move(s);
  }
  struct Stranger {
    Socket socket;
    Deadline by{StoreLimits::introduction};
    std::string in;
  };
  std::vector<Stranger> strangers;
  std::vector<pollfd> polled;
  while (true) {
    int missing = rank() + 1;
    while (missing < size() && sockets_[static_cast<std::size_t>(missing)].is_open()) ++missing;
    if (missing == size()) return;
    check(!by.over(), "rank ", missing, " did not come in time");
    polled.assign({{listener.fd(), POLLIN, 0}});
    for (const Stranger& s : strangers) polled.push_back({s.socket.fd(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), std::min(by.milliseconds(), 100));
    for (std::size_t i = 0; i < strangers.size(); ++i) {
      Stranger& s = strangers[i];
      Greeting g;
      char bytes[sizeof g];
      const ssize_t n = ::recv(s.socket.fd(), bytes, sizeof g - s.in.size(), MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || s.by.over()) s.socket.close();
      if (n > 0) s.in.append(bytes, static_cast<std::size_t>(n));
      if (!s.socket.is_open() || s.in.size() < sizeof g) continue;
      std::memcpy(&g, s.in.data(), sizeof g);
      const bool ours = g.magic == group_magic && same(g.token, token_) && g.to == static_cast<std::uint32_t>(rank()) &&
                        g.from > g.to && g.from < sockets_.size() && !sockets_[g.from].is_open();
      if (ours) sockets_[g.from] = std::move(s.socket);
      s.socket.close();
    }
    std::erase_if(strangers, [](const Stranger& s) { return !s.socket.is_open(); });
    if (polled[0].revents && strangers.size() < StoreLimits::strangers) {
      if (Socket s = accept_from(listener, Deadline(std::chrono::milliseconds(0))); s.is_open())
        strangers.emplace_back().socket = std::move(s);
    }
  }
}

void TcpGroup::broken(const std::string& what, bool known) {
  // The rank that detects a failure reports it in the store before closing its connections.
  std::string first = known ? "" : store_->failure(Deadline(std::chrono::seconds(2)));
  if (first.empty()) store_->report_failure(first = concat(name_, what));
  {
    const std::lock_guard lock(closing_);
    sockets_.clear();
  }
  broken_ = first;
  fail(describe(mine_), ", call ", mine_.number, " of rank ", rank(), ": ", broken_);
}

template <class F> void TcpGroup::guarded(const Header& h, F&& f) {
  mine_ = h;
  if (!broken_.empty()) fail(describe(h), " on rank ", rank(), ": the group is of no further use: ", broken_);
  flush_denormals_in_this_thread();
  Exchange x(sockets_);
  by_ = Deadline(timeout_);
  try {
    f(x, by_);
  } catch (const LostPeer& e) {
    broken(concat("rank ", e.peer, " ", e.text), false);
  } catch (const std::exception& e) {
    broken(e.what(), true);
  }
}

template <class F> void TcpGroup::call(Header h, F&& f) {
  h.number = ++calls_;
  guarded(h, [&](Exchange& x, const Deadline& by) {
    std::ranges::fill(seen_, 0);
    each_other([&](int peer) {
      x.send(peer, &mine_, sizeof mine_);
      x.receive(peer, &theirs_[static_cast<std::size_t>(peer)], sizeof mine_);
    });
    f(x, by);
  });
}

void TcpGroup::run(Exchange& x, const Deadline& by, const std::function<void(int)>& came) {
  x.run(by, [&](int peer) {
    const auto i = static_cast<std::size_t>(peer);
    if (seen_[i]) return came(peer);
    seen_[i] = 1;
    const bool ordered = rank() < peer;
    const std::string ours = concat("rank ", rank(), " calls ", describe(mine_)),
                      theirs = concat("rank ", peer, " calls ", describe(theirs_[i]));
    check(theirs_[i] == mine_, "in call ", mine_.number, " ", ordered ? ours : theirs, ", but ",
          ordered ? theirs : ours, "; all ranks must make the same calls in the same order, with the same shapes");
  });
}

// --- between GPUs ---
template <class F> void TcpGroup::between_gpus(const Header& h, F&& f) {
  call(h, [&](Exchange& x, const Deadline& by) {
    run(x, by, [](int) {});
    f(DeviceCollectives(*link_, rank(), size()));
  });
}

// Throws if a rank has gone, or time is up. A rank that ends its program after the last call may close its connection
// while the GPU here still receives: it gets two seconds.
void TcpGroup::look_for_others() {
  check(!by_.over(), "the GPUs of other ranks did not answer in time");
  for (int peer = 0; peer < size(); ++peer) {
    const Socket& s = sockets_[static_cast<std::size_t>(peer)];
    char byte;
    if (!s.is_open()) continue;
    const ssize_t n = ::recv(s.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) continue;
    if (!last_wait_) last_wait_ = Deadline(std::chrono::seconds(2));
    if (last_wait_->over()) throw LostPeer(peer, "has closed its connection");
  }
}

bool TcpGroup::run_link(Device gpu) {
  if (!nccl_) return false;
  Tensor own;
  guarded({.kind = Kind::link}, [&](Exchange&, const Deadline&) { own = link_offer(gpu, is_first()); });
  Dims sizes = own.sizes();
  sizes.insert(0, size());
  const Tensor all = Tensor::allocate(sizes, own.dtype());
  gather_all(Kind::link, all, own);
  const std::optional<std::string> name = link_name_of(all);
  if (!name) return false;
  guarded(Header(mine_), [&](Exchange&, const Deadline&) {
    link_ = cuda_backend::make_link(gpu, *name, rank(), size(), [this] { look_for_others(); });
  });
  return true;
}

// --- between processes ---
void TcpGroup::run_barrier() {
  call(header_of(Kind::barrier, {}), [&](Exchange& x, const Deadline& by) { run(x, by, [](int) {}); });
}

void TcpGroup::run_all_gather(const Tensor& out, const Tensor& part) { gather_all(Kind::all_gather, out, part); }
void TcpGroup::gather_all(Kind kind, const Tensor& out, const Tensor& part) {
  const Header h = header_of(kind, std::span(&part, 1));
  if (h.on_gpu) return between_gpus(h, [&](DeviceCollectives gpus) { gpus.all_gather(out, part); });
  call(h, [&](Exchange& x, const Deadline& by) {
    const auto bytes = static_cast<std::size_t>(part.nbytes());
    each_other([&](int peer) {
      x.send(peer, part.raw_data(), bytes);
      x.receive(peer, part_at(out, peer), bytes);
    });
    if (bytes > 0) std::memcpy(part_at(out, rank()), part.raw_data(), bytes);
    run(x, by, [](int) {});
  });
}

void TcpGroup::run_gather(const Tensor& out, const Tensor& part, int root) {
  Header h = header_of(Kind::gather, std::span(&part, 1));
  h.root = root;
  if (h.on_gpu) return between_gpus(h, [&](DeviceCollectives gpus) { gpus.gather(out, part, root); });
  call(h, [&](Exchange& x, const Deadline& by) {
    const auto bytes = static_cast<std::size_t>(part.nbytes());
    if (rank() != root) {
      x.send(root, part.raw_data(), bytes);
    } else {
      each_other([&](int peer) { x.receive(peer, part_at(out, peer), bytes); });
      if (bytes > 0) std::memcpy(part_at(out, root), part.raw_data(), bytes);
    }
    run(x, by, [](int) {});
  });
}

void TcpGroup::run_scatter(const Tensor& part, const Tensor& parts, int root) {
  Header h = header_of(Kind::scatter, std::span(&part, 1));
  h.root = root;
  if (h.on_gpu) return between_gpus(h, [&](DeviceCollectives gpus) { gpus.scatter(part, parts, root); });
  call(h, [&](Exchange& x, const Deadline& by) {
    const auto bytes = static_cast<std::size_t>(part.nbytes());
    if (rank() != root) {
      x.receive(root, part.raw_data(), bytes);
    } else {
      each_other([&](int peer) { x.send(peer, part_at(parts, peer), bytes); });
      if (bytes > 0) std::memcpy(part.raw_data(), part_at(parts, root), bytes);
    }
    run(x, by, [](int) {});
  });
}

void TcpGroup::run_all_to_all(const Tensor& out, const Tensor& parts) {
  const Header h = header_of(Kind::all_to_all, std::span(&parts, 1));
  if (h.on_gpu) return between_gpus(h, [&](DeviceCollectives gpus) { gpus.all_to_all(out, parts); });
  call(h, [&](Exchange& x, const Deadline& by) {
    const auto bytes = static_cast<std::size_t>(parts.nbytes() / size());
    each_other([&](int peer) {
      x.send(peer, part_at(parts, peer), bytes);
      x.receive(peer, part_at(out, peer), bytes);
    });
    if (bytes > 0) std::memcpy(part_at(out, rank()), part_at(parts, rank()), bytes);
    run(x, by, [](int) {});
  });
}

// Each message has its own header, which the receiver compares with the expected one.
void TcpGroup::run_exchange(std::span<const Message> sends, std::span<const Message> receives) {
  const auto header = [](const Message& m, int from, std::uint64_t number) {
    Header h = header_of(Kind::message, std::span(&m.x, 1));
    h.root = from, h.number = number;
    return h;
  };
  std::deque<Header> out, in, wanted;
  std::vector<std::deque<std::size_t>> waiting(sockets_.size());  // per rank: the messages of the next spans
  for (const Message& m : sends) out.push_back(header(m, rank(), ++sent_[static_cast<std::size_t>(m.rank)]));
  for (const Message& m : receives) wanted.push_back(header(m, m.rank, ++received_[static_cast<std::size_t>(m.rank)]));
  in.resize(wanted.size());
  const Header& first = out.empty() ? wanted[0] : out[0];
  guarded(first, [&](Exchange& x, const Deadline& by) {
    for (std::size_t i = 0; i < sends.size(); ++i) {
      x.send(sends[i].rank, &out[i], sizeof out[i]);
      if (first.on_gpu) continue;
      x.send(sends[i].rank, sends[i].x.raw_data(), static_cast<std::size_t>(sends[i].x.nbytes()));
    }
    constexpr std::size_t data = ~std::size_t{0};
    for (std::size_t i = 0; i < receives.size(); ++i) {
      auto& line = waiting[static_cast<std::size_t>(receives[i].rank)];
      const auto bytes = static_cast<std::size_t>(receives[i].x.nbytes());
      x.receive(receives[i].rank, &in[i], sizeof in[i]);
      line.push_back(i);
      if (bytes == 0 || first.on_gpu) continue;
      x.receive(receives[i].rank, receives[i].x.raw_data(), bytes);
      line.push_back(data);
    }
    x.run(by, [&](int peer) {
      auto& line = waiting[static_cast<std::size_t>(peer)];
      const std::size_t i = line.front();
      line.pop_front();
      if (i == data) return;
      check(in[i] == wanted[i], "rank ", rank(), " waits for ", describe(wanted[i]), ", but rank ", peer, " calls ",
            describe(in[i]), "; two ranks must make the calls that they have in common in the same order");
    });
    if (first.on_gpu) DeviceCollectives(*link_, rank(), size()).exchange(sends, receives);
  });
}

void TcpGroup::run_broadcast(std::span<const Tensor> xs, int root) {
  Header h = header_of(Kind::broadcast, xs);
  h.root = root;
  if (h.on_gpu) return between_gpus(h, [&](DeviceCollectives gpus) { gpus.broadcast(xs, root); });
  const Line line(xs);
  const auto size_of_one = static_cast<std::int64_t>(size_of(h.dtype));
  const auto bytes = [&](std::int64_t n) { return static_cast<std::size_t>(n * size_of_one); };
  const bool whole = size() == 2 || h.elements * size_of_one <= short_bytes;
  const auto part_of = [&](int receiver) {  // the receiver's part from the root
    if (whole) return Segment{0, h.elements};
    return segment_of(h.elements, receiver < root ? receiver : receiver - 1, size() - 1);
  };
  call(h, [&](Exchange& x, const Deadline& by) {
    const auto send = [&](int to, const Segment& s) {
      line.each(s.begin, s.end, [&](const char* p, std::int64_t n) { x.send(to, p, bytes(n)); });
    };
    if (rank() == root) {
      each_other([&](int peer) { send(peer, part_of(peer)); });
      return run(x, by, [](int) {});
    }
    std::deque<Segment> coming;  // segments from the root that can be passed on
    const Segment own = part_of(rank());
    for (std::int64_t at = own.begin; at < own.end; at += piece_bytes / size_of_one) {
      line.each(at, std::min(own.end, at + piece_bytes / size_of_one), [&](char* p, std::int64_t n) {
        x.receive(root, p, bytes(n));
        const std::int64_t begin = coming.empty() ? own.begin : coming.back().end;
        coming.push_back({begin, begin + n});
      });
    }
    if (!whole) {
      each_other([&](int peer) {
        if (peer == root) return;
        const Segment s = part_of(peer);
        line.each(s.begin, s.end, [&](char* p, std::int64_t n) { x.receive(peer, p, bytes(n)); });
      });
    }
    std::size_t next = 0;
    run(x, by, [&](int peer) {
      if (peer != root || whole) return;
      const Segment s = coming[next++];
      each_other([&](int other) {
        if (other != root) send(other, s);
      });
    });
  });
}

void TcpGroup::run_all_reduce(std::span<const Tensor> xs, ReduceOp op) {
  Header h = header_of(Kind::all_reduce, xs);
  h.op = op;
  if (h.on_gpu) return between_gpus(h, [&](DeviceCollectives gpus) { gpus.all_reduce(xs, op); });
  const Line line(xs);
  if (h.elements * static_cast<std::int64_t>(size_of(h.dtype)) * (size() - 1) <= short_bytes) reduce_whole(h, line);
  else reduce_segments(h, line, nullptr);
}

void TcpGroup::run_reduce_scatter(const Tensor& out, const Tensor& whole, ReduceOp op) {
  Header h = header_of(Kind::reduce_scatter, std::span(&whole, 1));
  h.op = op;
  if (h.on_gpu) return between_gpus(h, [&](DeviceCollectives gpus) { gpus.reduce_scatter(out, whole, op); });
  reduce_segments(h, Line(std::span(&whole, 1)), &out);
}

void TcpGroup::reduce_whole(const Header& h, const Line& line) {
  const auto size_of_one = static_cast<std::int64_t>(size_of(h.dtype));
  call(h, [&](Exchange& x, const Deadline& by) {
    each_other([&](int peer) {
      line.each(0, h.elements,
                [&](const char* p, std::int64_t n) { x.send(peer, p, static_cast<std::size_t>(n * size_of_one)); });
      x.receive(peer, staging_.at(peer, 0), static_cast<std::size_t>(h.elements * size_of_one));
    });
    run(x, by, [](int) {});
    std::vector<const void*> parts(static_cast<std::size_t>(size()));
    std::int64_t at = 0;
    line.each(0, h.elements, [&](char* p, std::int64_t n) {
      for (int r = 0; r < size(); ++r)
        parts[static_cast<std::size_t>(r)] = r == rank() ? p : staging_.at(r, 0) + at * size_of_one;
      reduce_parts(p, parts, n, h.dtype, h.op);
      at += n;
    });
  });
}

// With `out`, only this rank's segment is written there; otherwise all segments are written in place.
void TcpGroup::reduce_segments(const Header& h, const Line& line, const Tensor* out) {
  const auto size_of_one = static_cast<std::int64_t>(size_of(h.dtype));
  const auto bytes = [&](std::int64_t n) { return static_cast<std::size_t>(n * size_of_one); };
  const Segment own = segment_of(h.elements, rank(), size());
  const std::int64_t piece = piece_bytes / size_of_one, pieces = (own.size() + piece - 1) / piece;
  const auto piece_at = [&](std::int64_t i) {
    return Segment{own.begin + i * piece, std::min(own.end, own.begin + (i + 1) * piece)};
  };
  call(h, [&](Exchange& x, const Deadline& by) {
    std::vector<std::int64_t> asked(static_cast<std::size_t>(size())), came(asked);
    std::vector<const void*> parts(asked.size());
    std::int64_t reduced = 0;
    const auto ask = [&](int peer) {  // receives as many pieces as fit, then the peer's segment
      std::int64_t& n = asked[static_cast<std::size_t>(peer)];
      for (; n < pieces && n < reduced + static_cast<std::int64_t>(pieces_ahead); ++n)
        x.receive(peer, staging_.at(peer, n), bytes(piece_at(n).size()));
      if (n != pieces) return;
      ++n;
      if (out) return;
      const Segment s = segment_of(h.elements, peer, size());
      line.each(s.begin, s.end, [&](char* p, std::int64_t k) { x.receive(peer, p, bytes(k)); });
    };
    const auto reduce = [&] {
      const Segment s = piece_at(reduced);
      std::int64_t at = s.begin;
      line.each(s.begin, s.end, [&](char* p, std::int64_t n) {
        for (int r = 0; r < size(); ++r) {
          char* const staged = staging_.at(r, reduced) + bytes(at - s.begin);
          parts[static_cast<std::size_t>(r)] = r == rank() ? p : staged;
        }
        void* const to = out ? static_cast<char*>(out->raw_data()) + bytes(at - own.begin) : p;
        reduce_parts(to, parts, n, h.dtype, h.op);
        if (!out) each_other([&](int peer) { x.send(peer, p, bytes(n)); });
        at += n;
      });
      ++reduced;
    };
    each_other([&](int peer) {
      const Segment s = segment_of(h.elements, peer, size());
      line.each(s.begin, s.end, [&](const char* p, std::int64_t n) { x.send(peer, p, bytes(n)); });
      ask(peer);
    });
    const auto complete = [&] {
      bool all = reduced < pieces;
      each_other([&](int peer) { all = all && came[static_cast<std::size_t>(peer)] > reduced; });
      return all;
    };
    run(x, by, [&](int peer) {
      if (++came[static_cast<std::size_t>(peer)] > pieces) return;
      while (complete()) {
        reduce();
        each_other(ask);
      }
    });
  });
}

}  // namespace

std::unique_ptr<ProcessGroup> make_tcp_group(const GroupOptions& options) {
  return std::make_unique<TcpGroup>(options);
}

}  // namespace mantissa::distributed
