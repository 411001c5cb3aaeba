#include "io/process_group.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "core/device_link.h"
#include "core/from_blob.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/recording.h"
#include "core/team.h"
#include "io/tcp_group.h"

namespace mantissa::distributed {

const char* name_of(ReduceOp op) {
  constexpr const char* names[] = {"sum", "mean", "max", "min"};
  return names[static_cast<int>(op)];
}

// Executes operations one at a time, in the order of the requests: a blocking request runs in the calling thread if
// nothing is pending, which saves two thread switches; others run in a background thread.
class ProcessGroup::Queue {
 public:
  ~Queue() { stop(); }

  void run(const std::function<void()>& f) {
    std::unique_lock lock(mutex_);
    if (busy_ || !waiting_.empty()) {
      const auto task = enqueue(f);
      lock.unlock();
      return task->wait();
    }
    busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      f();
    } catch (...) { error = std::current_exception(); }
    finish();
    if (error) std::rethrow_exception(error);
  }

  Work start(std::function<void()> f) {
    const std::lock_guard lock(mutex_);
    return Work(enqueue(std::move(f)));
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Task final : Work::State {
    std::function<void()> f;
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::exception_ptr error;

    void run() {
      try {
        f();
      } catch (...) { error = std::current_exception(); }
      f = nullptr;
      const std::lock_guard lock(mutex);
      done = true;
      changed.notify_all();
    }
    void wait() override {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return done; });
      if (error) std::rethrow_exception(error);
    }
  };

  std::shared_ptr<Task> enqueue(std::function<void()> f) {
    auto task = std::make_shared<Task>();
    task->f = std::move(f);
    waiting_.push_back(task);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    changed_.notify_all();
    return task;
  }
  void finish() {
    {
      const std::lock_guard lock(mutex_);
      busy_ = false;
    }
    changed_.notify_all();
  }
  void work() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are handled by the program's own threads
    run_serially_in_this_thread();  // the other cores are busy with the concurrent backward pass
    flush_denormals_in_this_thread();
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !busy_ && (stopping_ || !waiting_.empty()); });
      if (waiting_.empty()) return;
      const std::shared_ptr<Task> task = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      lock.unlock();
      task->run();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> waiting_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;
};

ProcessGroup::ProcessGroup(int rank, int size) : rank_(rank), size_(size), queue_(std::make_unique<Queue>()) {
  check(size >= 1 && rank >= 0 && rank < size, "rank ", rank, " is not one of a group of ", size);
}
ProcessGroup::~ProcessGroup() = default;
void ProcessGroup::stop() { queue_->stop(); }

namespace {

// What this thread has launched on a device so far.
class LaunchedSoFar {
 public:
  explicit LaunchedSoFar(Device device) : device_(device) {
    if (!device.is_cpu()) moment_ = cuda_backend::prepare(&cuda_backend::mark_moment, device)(device);
  }
  ~LaunchedSoFar() {
    if (moment_) cuda_backend::destroy_moment(moment_);
  }
  LaunchedSoFar(const LaunchedSoFar&) = delete;

  // Runs f, whose launches come after that and beside what is launched later, perhaps in another thread; returns when
  // they are done.
  template <class F> void then(const F& f) const {
    if (moment_) cuda_backend::prepare(&cuda_backend::run_aside, device_)(moment_, f);
    else f();
  }

 private:
  Device device_;
  cuda_backend::Moment* moment_ = nullptr;
};

void check_op(const char* what, const Tensor& x, ReduceOp op) {
  check(op != ReduceOp::mean || x.is_floating(), what, ": the mean of ", x, " is no integer; use the sum");
  check(x.dtype() != boolean || op == ReduceOp::max || op == ReduceOp::min, what, ": ", x,
        " has a max (any) and a min (all), but no ", name_of(op));
}

// x on that device, contiguous: x itself if it already is.
Tensor on(Device device, const Tensor& x) { return x.detach().to(device).contiguous(); }

// [size, ...] buffer for the parts of all ranks.
Tensor room_for_all(const char* what, const Tensor& x, int size, Device device) {
  check(x.dim() < Dims::max_rank, what, ": ", x, " has no room for a further dimension");
  Dims sizes = x.sizes();
  sizes.insert(0, size);
  return Tensor::allocate(sizes, x.dtype(), device);
}

// Copies that replace tensors during an in-place operation where they are on another device or not contiguous.
class StandIns {
 public:
  StandIns(std::span<const Tensor> xs, Device device) : originals_(xs) {
    for (const Tensor& x : xs) tensors_.push_back(on(device, x));
  }
  std::span<const Tensor> tensors() const { return tensors_; }
  void put_back(const char* op) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& x = originals_[i];
      if (x.numel() > 0 && x.raw_data() == tensors_[i].raw_data()) x.storage()->written_by(op);
      else x.detach().copy_(tensors_[i]);
    }
  }

 private:
  std::span<const Tensor> originals_;
  std::vector<Tensor> tensors_;
};

}  // namespace

void ProcessGroup::check_all(const char* what, std::span<const Tensor> xs) {
  for (const Tensor& x : xs) {
    check(x.defined(), what, ": a tensor is undefined");
    check(x.dtype() == xs[0].dtype() && x.device() == xs[0].device(), what, ": ", xs[0], " and ", x,
          " differ in dtype or device");
  }
}

void ProcessGroup::check_rank(const char* what, int rank) const {
  check(rank >= 0 && rank < size_, what, ": there is no rank ", rank, " in a group of ", size_);
}
void ProcessGroup::check_parts(const char* what, const Tensor& parts) const {
  check(parts.dim() >= 1 && parts.size(0) == size_, what, ": the first size of ", parts, " is not ", size_,
        ", the number of ranks");
}

bool ProcessGroup::reaches(Device device) {
  if (device.is_cpu()) return true;
  if (is_recording(device))
    fail("processes cannot exchange tensors in a step that is captured: they wait for each other; move this out of it");
  const std::lock_guard lock(asking_);
  if (!gpu_) {
    queue_->run([&] { linked_ = run_link(device); });
    gpu_ = device;
  }
  check(!linked_ || size_ == 1 || device == *gpu_, "this group connects ", *gpu_, " with the GPUs of other ranks, not ",
        device, "; a rank has one GPU, which is that of its first tensor");
  return linked_;
}
Device ProcessGroup::exchange_device(const Tensor& x) { return reaches(x.device()) ? x.device() : cpu; }
void ProcessGroup::run(Device device, const std::function<void()>& f) {
  const LaunchedSoFar before(device);
  queue_->run([&] { before.then(f); });
}

void ProcessGroup::barrier() {
  const ProfileRange range(ProfileKind::library, "barrier");
  queue_->run([&] { run_barrier(); });
}

void ProcessGroup::broadcast(std::span<const Tensor> xs, int root) {
  if (xs.empty()) return;
  check_all("broadcast", xs);
  const ProfileRange range(ProfileKind::library, "broadcast", &xs[0]);
  check_rank("broadcast", root);
  const Device device = exchange_device(xs[0]);
  StandIns c(xs, device);
  run(device, [&] { run_broadcast(c.tensors(), root); });
  c.put_back("broadcast");
}

void ProcessGroup::all_reduce(std::span<const Tensor> xs, ReduceOp op) {
  if (xs.empty()) return;
  check_all("all_reduce", xs);
  check_op("all_reduce", xs[0], op);
  const ProfileRange range(ProfileKind::library, "all_reduce", &xs[0]);
  const Device device = exchange_device(xs[0]);
  StandIns c(xs, device);
  run(device, [&] { run_all_reduce(c.tensors(), op); });
  c.put_back("all_reduce");
}

double ProcessGroup::all_reduce(double x, ReduceOp op) {
  const Tensor t = scalar(x, {.dtype = f64});
  all_reduce(t, op);
  return t.item<double>();
}

Tensor ProcessGroup::all_gather(const Tensor& x) {
  check_all("all_gather", std::span(&x, 1));
  const ProfileRange range(ProfileKind::library, "all_gather", &x);
  const Device device = exchange_device(x);
  const Tensor part = on(device, x), all = room_for_all("all_gather", x, size_, device);
  run(device, [&] { run_all_gather(all, part); });
  return all.to(x.device());
}

// Bytes are sent as u8 tensors, preceded by their length.
void ProcessGroup::broadcast(std::string& text, int root) {
  const Tensor length = tensor({static_cast<std::int64_t>(text.size())});
  broadcast(length, root);
  text.resize(static_cast<std::size_t>(length.item<std::int64_t>()));
  broadcast(from_blob(text.data(), {length.item<std::int64_t>()}, {.dtype = u8}), root);
}
std::vector<std::string> ProcessGroup::all_gather(const std::string& text) {
  const std::vector<std::int64_t> lengths =
      all_gather(tensor({static_cast<std::int64_t>(text.size())})).to_vector<std::int64_t>();
  std::string mine = text;
  mine.resize(static_cast<std::size_t>(std::ranges::max(lengths)));  // all tensors must have the same shape
  const auto longest = static_cast<std::int64_t>(mine.size());
  const Tensor all = all_gather(from_blob(mine.data(), {longest}, {.dtype = u8}));
  std::vector<std::string> texts;
  for (int r = 0; r < size_; ++r) {
    const auto length = static_cast<std::size_t>(lengths[static_cast<std::size_t>(r)]);
    texts.emplace_back(static_cast<const char*>(all.raw_data()) + r * longest, length);
  }
  return texts;
}

Tensor ProcessGroup::reduce_scatter(const Tensor& x, ReduceOp op) {
  check_all("reduce_scatter", std::span(&x, 1));
  const ProfileRange range(ProfileKind::library, "reduce_scatter", &x);
  check_op("reduce_scatter", x, op);
  check(x.dim() >= 1 && x.size(0) % size_ == 0, "reduce_scatter: the first size of ", x, " is not divisible by the ",
        size_, " ranks");
  Dims sizes = x.sizes();
  sizes[0] /= size_;
  const Device device = exchange_device(x);
  const Tensor whole = on(device, x), part = Tensor::allocate(sizes, x.dtype(), device);
  run(device, [&] { run_reduce_scatter(part, whole, op); });
  return part.to(x.device());
}

Work ProcessGroup::start_all_reduce(std::vector<Tensor> xs, ReduceOp op) {
  if (xs.empty()) return {};
  check_all("all_reduce", xs);
  check_op("all_reduce", xs[0], op);
  const bool reached = reaches(xs[0].device());
  for (Tensor& x : xs) {
    check(x.is_contiguous() && reached, "start_all_reduce: ", x,
          " is not contiguous, or on a device that the group does not reach; all_reduce takes it");
    x = x.detach();
  }
  const auto before = std::make_shared<const LaunchedSoFar>(xs[0].device());
  return queue_->start([this, before, xs = std::move(xs), op] {
    const ProfileRange range(ProfileKind::library, "all_reduce in the background", &xs[0]);
    before->then([&] { run_all_reduce(xs, op); });
  });
}

void ProcessGroup::reduce(const Tensor& x, ReduceOp op, int root) {
  check_rank("reduce", root);
  if (rank_ == root) return all_reduce(x, op);
  check_all("reduce", std::span(&x, 1));
  all_reduce(x.detach().clone(), op);
}

Tensor ProcessGroup::gather(const Tensor& x, int root) {
  check_all("gather", std::span(&x, 1));
  check_rank("gather", root);
  const ProfileRange range(ProfileKind::library, "gather", &x);
  const Device device = exchange_device(x);
  const Tensor part = on(device, x), all = rank_ == root ? room_for_all("gather", x, size_, device) : Tensor();
  run(device, [&] { run_gather(all, part, root); });
  return all.defined() ? all.to(x.device()) : all;
}

void ProcessGroup::scatter(const Tensor& x, const Tensor& parts, int root) {
  check_all("scatter", std::span(&x, 1));
  check_rank("scatter", root);
  check(parts.defined() == (rank_ == root), "scatter: rank ", root, " gives the parts, and no other; this is rank ",
        rank_);
  const ProfileRange range(ProfileKind::library, "scatter", &x);
  if (parts.defined()) {
    check_parts("scatter", parts);
    check(parts.dtype() == x.dtype() && parts[0].sizes() == x.sizes(), "scatter: a part of ", parts, " does not fit ",
          x);
  }
  const Device device = exchange_device(x);
  StandIns c(std::span(&x, 1), device);
  const Tensor whole = parts.defined() ? on(device, parts) : parts;
  run(device, [&] { run_scatter(c.tensors()[0], whole, root); });
  c.put_back("scatter");
}

Tensor ProcessGroup::all_to_all(const Tensor& x) {
  check_all("all_to_all", std::span(&x, 1));
  const ProfileRange range(ProfileKind::library, "all_to_all", &x);
  check_parts("all_to_all", x);
  const Device device = exchange_device(x);
  const Tensor parts = on(device, x), all = Tensor::allocate(x.sizes(), x.dtype(), device);
  run(device, [&] { run_all_to_all(all, parts); });
  return all.to(x.device());
}

void ProcessGroup::send(const Tensor& x, int to) {
  const Message m{x, to};
  exchange(std::span(&m, 1), {});
}
void ProcessGroup::receive(const Tensor& x, int from) {
  const Message m{x, from};
  exchange({}, std::span(&m, 1));
}
void ProcessGroup::exchange(std::span<const Message> sends, std::span<const Message> receives) {
  if (sends.empty() && receives.empty()) return;
  const auto check_messages = [&](const char* what, std::span<const Message> messages) {
    for (const Message& m : messages) {
      check(m.x.defined(), what, ": a tensor is undefined");
      check_rank(what, m.rank);
      check(m.rank != rank_, what, ": rank ", rank_, " and itself; messages are for other ranks");
    }
  };
  check_messages("send", sends);
  check_messages("receive", receives);
  const ProfileRange range(ProfileKind::library, receives.empty() ? "send" : sends.empty() ? "receive" : "exchange",
                           &(sends.empty() ? receives : sends)[0].x);
  Device device = cpu;
  {
    const std::lock_guard lock(asking_);
    if (linked_) device = *gpu_;  // connecting the GPUs takes all ranks, so a message alone does not
  }
  const auto is_there = [&](const Message& m) { return m.x.device() == device; };
  if (!std::ranges::all_of(sends, is_there) || !std::ranges::all_of(receives, is_there)) device = cpu;
  std::vector<Message> out, in;
  std::vector<Tensor> places;
  for (const Message& m : sends) out.push_back({on(device, m.x), m.rank});
  for (const Message& m : receives) places.push_back(m.x);
  StandIns c(places, device);
  for (std::size_t i = 0; i < places.size(); ++i) in.push_back({c.tensors()[i], receives[i].rank});
  run(device, [&] { run_exchange(out, in); });
  c.put_back("receive");
}

namespace {

class GroupOfOne final : public ProcessGroup {
 public:
  GroupOfOne() : ProcessGroup(0, 1) {}
  ~GroupOfOne() override { stop(); }
  Work start_all_reduce(std::vector<Tensor> xs, ReduceOp op) override {
    all_reduce(xs, op);
    return {};
  }

 private:
  bool run_link(Device) override { return true; }
  void run_barrier() override {}
  void run_broadcast(std::span<const Tensor>, int) override {}
  void run_all_reduce(std::span<const Tensor>, ReduceOp) override {}
  void run_all_gather(const Tensor& out, const Tensor& x) override { Tensor(out).copy_(x); }
  void run_reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp) override { Tensor(out).copy_(x); }
  void run_gather(const Tensor& out, const Tensor& x, int) override { out[0].copy_(x); }
  void run_scatter(const Tensor& x, const Tensor& parts, int) override { Tensor(x).copy_(parts[0]); }
  void run_all_to_all(const Tensor& out, const Tensor& x) override { Tensor(out).copy_(x); }
  void run_exchange(std::span<const Message>, std::span<const Message>) override {}  // there is no other rank
  std::unique_ptr<ProcessGroup> run_split(std::span<const int>, int) override { return nullptr; }  // never two members
};

std::optional<std::int64_t> number_of(const char* name, std::int64_t least, std::int64_t most) {
  const char* text = std::getenv(name);
  if (!text || !*text) return {};
  const std::string_view word(text);
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  check(error == std::errc() && end == word.data() + word.size() && n >= least && n <= most, "the variable ", name,
        " is \"", word, "\", not a whole number from ", least, " to ", most);
  return n;
}
std::string text_of(const char* name, const char* usual) {
  const char* text = std::getenv(name);
  return text && *text ? text : usual;
}

}  // namespace

GroupOptions options_from_environment() {
  constexpr std::int64_t most_ranks = 4096, a_week = 7 * 86400;
  GroupOptions o;
  o.size = static_cast<int>(number_of("WORLD_SIZE", 1, most_ranks).value_or(1));
  const std::optional<std::int64_t> rank = number_of("RANK", 0, most_ranks - 1);
  if (o.size == 1) return o;
  check(rank.has_value(), "WORLD_SIZE is ", o.size, ", but the variable RANK is not set: mantissa_run sets both");
  o.rank = static_cast<int>(*rank);
  check(o.rank < o.size, "RANK is ", o.rank, " of WORLD_SIZE ", o.size, "; ranks are counted from 0");
  o.address = text_of("MASTER_ADDR", "127.0.0.1");
  o.port = static_cast<int>(number_of("MASTER_PORT", 1, 65535).value_or(29500));
  o.token = text_of("MANTISSA_JOB_TOKEN", "");
  o.store_socket = static_cast<int>(number_of("MANTISSA_STORE_SOCKET", 0, 1 << 20).value_or(-1));
  const std::string nccl = text_of("MANTISSA_NCCL", "on");
  check(nccl == "on" || nccl == "off", "the variable MANTISSA_NCCL is \"", nccl, "\", neither on nor off");
  o.nccl = nccl == "on";
  if (const auto s = number_of("MANTISSA_GROUP_TIMEOUT", 1, a_week)) o.timeout = std::chrono::seconds(*s);
  if (const auto s = number_of("MANTISSA_RENDEZVOUS_TIMEOUT", 1, a_week))
    o.rendezvous_timeout = std::chrono::seconds(*s);
  return o;
}

std::unique_ptr<ProcessGroup> make_group(const GroupOptions& o) {
  if (o.size == 1) return std::make_unique<GroupOfOne>();
  return make_tcp_group(o);
}

std::unique_ptr<ProcessGroup> ProcessGroup::split(int color) {
  const ProfileRange range(ProfileKind::library, "split");
  const std::vector<std::int64_t> colors = all_gather(tensor({color})).to_vector<std::int64_t>();
  const int number = ++splits_;
  std::vector<int> members;
  for (int r = 0; r < size_; ++r)
    if (colors[static_cast<std::size_t>(r)] == color) members.push_back(r);
  if (color < 0) return nullptr;
  if (members.size() == 1) return std::make_unique<GroupOfOne>();
  return run_split(members, number);
}

ProcessGroup& world() {
  static const std::unique_ptr<ProcessGroup> group = make_group(options_from_environment());
  return *group;
}

int local_rank() { return static_cast<int>(number_of("LOCAL_RANK", 0, 4095).value_or(0)); }

}  // namespace mantissa::distributed
