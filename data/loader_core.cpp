// A ring of slots between the threads that make batches and the consumer. Batches are numbered across epochs
// ("tickets"); a thread takes the next ticket when its slot is free, works without the lock, and stores the result in
// slot ticket % prefetch. So no sorting is needed.
#include "data/loader_core.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>

#include "core/context.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/team.h"

namespace mantissa::data {
namespace {

using Order = std::shared_ptr<const BatchSampler::Batches>;

// Cached sample orders of the last few epochs: neighbouring tickets may belong to different epochs.
class Orders {
 public:
  Order get(const BatchSampler& sampler, std::uint64_t seed, std::int64_t epoch) {
    const std::lock_guard lock(mutex_);
    Entry& e = entries_[epoch % 2];
    if (!e.order || e.epoch != epoch || e.seed != seed) e = {seed, epoch, make(sampler, seed, epoch)};
    return e.order;
  }

 private:
  struct Entry {
    std::uint64_t seed = 0;
    std::int64_t epoch = 0;
    Order order;
  };
  static Order make(const BatchSampler& sampler, std::uint64_t seed, std::int64_t epoch) {
    return std::make_shared<BatchSampler::Batches>(sampler.order(seed, static_cast<std::uint64_t>(epoch)));
  }
  std::mutex mutex_;
  Entry entries_[2];
};

std::shared_ptr<const BatchSampler> make_sampler(std::int64_t n, const LoaderOptions& o, const Sampling& asked) {
  check(!asked.batches || !asked.sampler, "a loader takes a sampler or a batch sampler, not both");
  check(!(asked.batches || asked.sampler) || !o.shuffle,
        "a loader with a sampler cannot shuffle: the sampler decides the order");
  check(!asked.batches || o.ranks == 1, "a loader with a batch sampler cannot be sharded: the batch sampler decides");
  if (asked.batches) return asked.batches;
  std::shared_ptr<const Sampler> sampler = asked.sampler;
  if (!sampler && o.shuffle) sampler = std::make_shared<RandomSampler>(n);
  if (!sampler) sampler = std::make_shared<SequentialSampler>(n);
  if (o.ranks != 1) sampler = std::make_shared<DistributedSampler>(sampler, o.rank, o.ranks, o.uneven);
  return std::make_shared<EvenBatches>(sampler, o.batch, o.drop_last);
}

std::int64_t samples_of(std::int64_t n, const LoaderOptions& o, const Sampling& asked) {
  const std::int64_t all = asked.sampler ? asked.sampler->size() : n;
  if (o.ranks == 1) return all;
  return DistributedSampler(std::make_shared<SequentialSampler>(all), o.rank, o.ranks, o.uneven).size();
}

// Restores the autocast region in which the loader was created, for the transforms.
class InRegion {
 public:
  explicit InRegion(const AutocastState& region) : before_(std::exchange(context().autocast, region)) {}
  ~InRegion() { context().autocast = before_; }
  InRegion(const InRegion&) = delete;
  InRegion& operator=(const InRegion&) = delete;

 private:
  AutocastState before_;
};

}  // namespace

struct LoaderCore::Ring {
  Ring(std::int64_t n, LoaderOptions o, const Sampling& sampling, Make f);
  ~Ring() { stop(); }

  std::any make_batch(std::int64_t ticket);
  std::any take();
  void start();
  void stop();
  void work();

  LoaderOptions options;
  const Make make;
  const std::shared_ptr<const BatchSampler> sampler;
  const std::int64_t samples;  // in the dataset, or per epoch if a sampler determines it
  std::int64_t batches = 0;
  std::int64_t epoch = 0, batch = 0;  // the consumer's position

 private:
  struct Slot {
    bool ready = false;
    std::any batch;
    std::exception_ptr error;
  };
  const AutocastState region_ = context().autocast;
  Orders orders_;
  std::mutex mutex_;
  std::condition_variable room_, ready_;
  std::vector<Slot> slots_;
  std::int64_t next_ = 0, taken_ = 0;  // the ticket to be made next; the ticket the consumer waits for
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

LoaderCore::Ring::Ring(std::int64_t n, LoaderOptions o, const Sampling& sampling, Make f)
    : options(o), make(std::move(f)), sampler(make_sampler(n, o, sampling)), samples(samples_of(n, o, sampling)) {
  check(o.batch >= 1, "the batch size must be at least 1, got ", o.batch);
  check(o.prefetch >= 1, "prefetch must be at least 1, got ", o.prefetch);
  check(o.threads >= 0 && o.threads <= 256, "a loader has 0 to 256 threads, asked for ", o.threads);
  check(n > 0, "the dataset is empty");
  check(samples > 0 || o.ranks == 1, "rank ", o.rank, " of ", o.ranks,
        " gets no samples: there are fewer than ranks; Uneven::repeat gives some to all of them");
  check(samples > 0, "the sampler gives no samples");
  check(o.first_epoch >= 0, "the first epoch must be at least 0, got ", o.first_epoch);
  epoch = o.first_epoch;
  batches = sampler->batches();
  const std::string whose = o.ranks == 1 ? "the dataset has " : concat("rank ", o.rank, " of ", o.ranks, " gets ");
  check(batches > 0, whose, samples, " samples, fewer than one batch of ", o.batch, ", with drop_last");
  start();
}

// Called by any thread; apart from orders_, only reads members that are constant after construction or restore.
std::any LoaderCore::Ring::make_batch(std::int64_t ticket) {
  const std::int64_t e = ticket / batches, b = ticket % batches;
  const InRegion region(region_);  // in every worker thread
  try {
    const Order order = orders_.get(*sampler, options.seed, e);
    check(static_cast<std::int64_t>(order->size()) == batches, "the batch sampler made ", order->size(),
          " batches, it had said ", batches);
    Draws draws(options.seed, Purpose::augment, static_cast<std::uint64_t>(e),
                static_cast<std::uint64_t>(b * options.ranks + options.rank));
    return make((*order)[static_cast<std::size_t>(b)], draws);
  } catch (Error& error) {
    error.add_outer_context(concat("data loader, epoch ", e, ", batch ", b));
    throw;
  } catch (const std::exception& error) { fail("data loader, epoch ", e, ", batch ", b, ": ", error.what()); }
}

void LoaderCore::Ring::work() {
  run_serially_in_this_thread();  // the other cores are busy with the concurrent training step
  flush_denormals_in_this_thread();
  std::unique_lock lock(mutex_);
  while (true) {
    room_.wait(lock, [&] { return stopping_ || next_ < taken_ + options.prefetch; });
    if (stopping_) return;
    const std::int64_t ticket = next_++;
    lock.unlock();
    Slot made;
    const ProfileRange range(ProfileKind::library, "loader: make a batch");
    try {
      made.batch = make_batch(ticket);
    } catch (...) { made.error = std::current_exception(); }
    made.ready = true;
    lock.lock();
    slots_[ticket % options.prefetch] = std::move(made);
    ready_.notify_one();
  }
}

std::any LoaderCore::Ring::take() {
  if (options.threads == 0) return make_batch(taken_++);
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[taken_ % options.prefetch];
  ready_.wait(lock, [&] { return slot.ready; });
  Slot done = std::exchange(slot, {});
  ++taken_;
  lock.unlock();
  room_.notify_one();
  if (done.error) std::rethrow_exception(done.error);
  return std::move(done.batch);
}

void LoaderCore::Ring::start() {
  next_ = taken_ = epoch * batches + batch;
  slots_.assign(static_cast<std::size_t>(options.prefetch), {});
  stopping_ = false;
  try {
    for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& e) {
    stop();
    fail("cannot start ", options.threads, " loader threads: ", e.what());
  }
}

void LoaderCore::Ring::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

LoaderCore::LoaderCore(std::int64_t samples, const LoaderOptions& options, const Sampling& sampling, Make make)
    : ring_(std::make_unique<Ring>(samples, options, sampling, std::move(make))) {}
LoaderCore::~LoaderCore() = default;

std::any LoaderCore::next() {
  Ring& e = *ring_;
  if (e.batch == e.batches) {
    ++e.epoch;
    e.batch = 0;
    return {};
  }
  const ProfileRange range(ProfileKind::library, "loader: take a batch");
  ++e.batch;  // before take(): a batch that fails is skipped
  return e.take();
}

std::int64_t LoaderCore::batches() const { return ring_->batches; }

LoaderState LoaderCore::state() const {
  const Ring& e = *ring_;
  const LoaderOptions& o = e.options;
  return {o.seed, e.epoch, e.batch, e.samples, o.batch, o.shuffle, o.drop_last};
}

void LoaderCore::restore(const LoaderState& s) {
  Ring& e = *ring_;
  check(s.samples == e.samples && s.batch_size == e.options.batch, "the saved position is of ", s.samples,
        " samples in batches of ", s.batch_size, ", this loader has ", e.samples, " in batches of ", e.options.batch,
        ": resume with the same data, batch size and, if they share the data, number of ranks");
  check(s.shuffle == e.options.shuffle && s.drop_last == e.options.drop_last,
        "the saved position is of a loader with shuffle ", s.shuffle, " and drop_last ", s.drop_last, ", this one has ",
        e.options.shuffle, " and ", e.options.drop_last);
  // 2^40 epochs are beyond any run and keep the ticket arithmetic far from overflow.
  check(s.epoch >= 0 && s.epoch < (std::int64_t{1} << 40) / e.batches && s.batch >= 0 && s.batch <= e.batches,
        "the saved position is epoch ", s.epoch, ", batch ", s.batch, " of ", e.batches);
  e.stop();
  e.options.seed = s.seed;
  e.epoch = s.epoch;
  e.batch = s.batch;
  e.start();
}

}  // namespace mantissa::data
