// Each thread writes to its own log, behind a mutex that only stop() contends for. Profiles are numbered, so that a
// range which outlives its profile, or is older than it, finds out by one comparison.
#include "core/profile.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "core/accelerator.h"
#include "core/allocator.h"
#include "core/flops.h"
#include "core/recording.h"
#include "core/tensor.h"

namespace mantissa {
namespace {

using Clock = std::chrono::steady_clock;

struct DestroyMoment {
  void operator()(cuda_backend::Moment* m) const { cuda_backend::destroy_moment(m); }
};
using Moment = std::unique_ptr<cuda_backend::Moment, DestroyMoment>;

struct Recorded {
  ProfileEvent event;
  Moment begin, end;
};

struct ThreadLog {
  std::mutex mutex;
  std::atomic<std::uint64_t> session = 0;
  int number = 0;
  std::vector<Recorded> open;      // the innermost last
  std::vector<Recorded> finished;  // nested ranges before the enclosing one
};

// Written while nobody records; read under a log's mutex by threads that have joined it.
struct Session {
  std::atomic<std::uint64_t> number = 0;
  ProfileOptions options;
  Clock::time_point start;
  std::atomic<std::size_t> begun = 0, dropped = 0;
  struct Base {
    Device device;
    Moment moment;
  };
  std::mutex bases_mutex;
  std::vector<Base> bases;  // a reference time for each device
};

// Never destroyed: threads may end after main.
struct Recorder {
  std::mutex mutex;
  std::vector<std::shared_ptr<ThreadLog>> logs;  // of the current profile
  std::set<std::string, std::less<>> names;
  std::uint64_t sessions = 0;
  Session session;
};
Recorder& recorder() {
  static Recorder& r = *new Recorder;
  return r;
}

const std::shared_ptr<ThreadLog>& this_thread_log() {
  thread_local const std::shared_ptr<ThreadLog> log = std::make_shared<ThreadLog>();
  return log;
}
void join(const std::shared_ptr<ThreadLog>& log, std::uint64_t session) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  const std::lock_guard own(log->mutex);
  r.logs.push_back(log);
  log->open.clear();
  log->finished.clear();
  log->session = session;
  log->number = static_cast<int>(r.logs.size()) - 1;
}

std::int64_t now(const Session& s) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - s.start).count();
}

// An event on the device's stream; none on the CPU, and while a graph is recorded.
Moment mark(Device device) {
  if (device.is_cpu() || is_recording(device)) return {};
  return Moment(cuda_backend::prepare(&cuda_backend::mark_moment, device)(device));
}

void add_base(Session& s, Device device) {
  const std::lock_guard lock(s.bases_mutex);
  for (const Session::Base& b : s.bases)
    if (b.device == device) return;
  s.bases.push_back({device, mark(device)});
}

std::string describe_all(std::span<const Tensor* const> inputs) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(inputs.size(), most); ++i) {
    if (!text.empty()) text += ", ";
    const Tensor& t = *inputs[i];
    if (!t.defined()) text += "none";
    else if (t.is_weak_scalar()) text += "a number";  // its value is not read
    else text += concat(t.dtype(), t.sizes());
  }
  if (inputs.size() > most) text += concat(", and ", static_cast<int>(inputs.size() - most), " more");
  return text;
}

// flops: those of the log's thread so far, as far as known.
void close(ThreadLog& log, const Session& s, std::optional<double> flops) noexcept {
  Recorded& r = log.open.back();
  ProfileEvent& e = r.event;
  e.duration = now(s) - e.start;
  e.flops = flops ? *flops - e.flops : 0;
  if (s.options.memory) e.bytes = memory_stats(e.device).allocated - e.bytes;
  try {
    if (r.begin) r.end = mark(e.device);
  } catch (...) {
    r.begin.reset();  // the operator itself reports the device's error
  }
  log.finished.push_back(std::move(r));  // begin reserved the memory
  log.open.pop_back();
}

// Within a log, a range comes after all ranges nested in it: the sums over the level below are complete when it comes.
void find_own_parts(std::span<ProfileEvent> events) {
  struct Inside {
    std::int64_t host = 0, device = -1;
    double flops = 0;
  };
  std::vector<Inside> inside;
  for (ProfileEvent& e : events) {
    const auto level = static_cast<std::size_t>(e.depth);
    if (inside.size() < level + 2) inside.resize(level + 2);
    const Inside within = std::exchange(inside[level + 1], {});
    e.self = std::max<std::int64_t>(0, e.duration - within.host);
    if (e.device_duration < 0) {
      e.device_duration = within.device;
      e.device_self = within.device < 0 ? -1 : 0;
    } else {
      e.device_self = e.device_duration - std::clamp<std::int64_t>(within.device, 0, e.device_duration);
    }
    inside[level].host += e.duration;
    inside[level].flops += e.flops;
    e.flops = std::max(0.0, e.flops - within.flops);
    if (e.device_duration >= 0)
      inside[level].device = std::max<std::int64_t>(0, inside[level].device) + e.device_duration;
  }
}

std::int64_t nanoseconds(double milliseconds) { return static_cast<std::int64_t>(milliseconds * 1e6); }

void time_on_device(Recorded& r, const Session& s) {
  if (!r.begin || !r.end) return;
  ProfileEvent& e = r.event;
  e.device_duration = nanoseconds(cuda_backend::milliseconds_between(r.begin.get(), r.end.get()));
  for (const Session::Base& b : s.bases) {
    if (b.device == e.device && b.moment)
      e.device_start = nanoseconds(cuda_backend::milliseconds_between(b.moment.get(), r.begin.get()));
  }
}

}  // namespace

void ProfileRange::begin_named(std::string_view name) noexcept {
  const char* kept = "";
  try {
    Recorder& r = recorder();
    const std::lock_guard lock(r.mutex);
    auto found = r.names.find(name);
    if (found == r.names.end()) found = r.names.emplace(name).first;
    kept = found->c_str();
  } catch (const std::bad_alloc&) { return; }
  begin(ProfileKind::user, kept, {});
}

void ProfileRange::begin(ProfileKind kind, const char* name, std::span<const Tensor* const> inputs) noexcept try {
  Session& s = recorder().session;
  const std::uint64_t number = s.number;
  ThreadLog& log = *this_thread_log();
  // log.session is written by this thread, and by stop(), which sets it to 0
  if (log.session != number) join(this_thread_log(), number);
  const std::lock_guard lock(log.mutex);
  if (!detail::profiling.load(std::memory_order_acquire) || s.number != number) return;  // stopped meanwhile
  if (s.begun.fetch_add(1, std::memory_order_relaxed) >= s.options.most_events) {
    ++s.dropped;
    return;
  }
  Recorded r;
  ProfileEvent& e = r.event;
  e.name = name;
  e.kind = kind;
  e.thread = log.number;
  e.depth = static_cast<int>(log.open.size());
  for (const Tensor* t : inputs) {
    if (!t->defined() || t->is_weak_scalar()) continue;
    e.device = t->device();
    break;
  }
  if (s.options.shapes) e.shapes = describe_all(inputs);
  if (s.options.memory) e.bytes = memory_stats(e.device).allocated;
  e.flops = detail::flops;
  if (log.finished.capacity() < log.finished.size() + log.open.size() + 1)
    log.finished.reserve(2 * (log.finished.size() + log.open.size()) + 1024);
  if (!e.device.is_cpu()) {
    try {
      add_base(s, e.device);
      r.begin = mark(e.device);
    } catch (const Error&) {  // the operator itself reports the device's error
    }
  }
  e.start = now(s);
  log.open.push_back(std::move(r));
  session_ = number;
} catch (...) {  // out of memory: this range is not recorded
}

void ProfileRange::end() noexcept {
  const Session& s = recorder().session;
  ThreadLog& log = *this_thread_log();
  const std::lock_guard lock(log.mutex);
  if (log.session == session_ && !log.open.empty()) close(log, s, detail::flops);
}

Profile::Profile(const ProfileOptions& options) : options_(options) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  check(!detail::profiling, "Profile: there is one already, and it records every thread; stop() it first");
  Session& s = r.session;
  s.number = session_ = ++r.sessions;
  s.options = options;
  s.begun = s.dropped = 0;
  s.start = Clock::now();
  detail::profiling.store(true, std::memory_order_release);
}

Profile::~Profile() {
  try {
    stop();
  } catch (const std::exception&) {  // device error: reported at its next use
  }
}

void Profile::stop() {
  if (session_ == 0) return;
  session_ = 0;
  Recorder& r = recorder();
  detail::profiling.store(false, std::memory_order_release);
  Session& s = r.session;
  std::vector<std::shared_ptr<ThreadLog>> logs;
  {
    const std::lock_guard lock(r.mutex);
    logs = std::exchange(r.logs, {});
  }
  duration_ = now(s);
  std::exception_ptr lost;  // device error; the host's times are kept
  for (const auto& log : logs) {
    const std::size_t first = events_.size();
    std::vector<Recorded> finished;
    {  // a thread that has seen `profiling` set may still come and find that it has not joined
      const std::lock_guard lock(log->mutex);
      const bool own = log == this_thread_log();
      while (!log->open.empty()) close(*log, s, own ? std::optional(detail::flops) : std::nullopt);
      finished = std::exchange(log->finished, {});
      log->session = 0;
    }
    for (Recorded& one : finished) {
      try {
        time_on_device(one, s);
      } catch (const Error&) {
        if (!lost) lost = std::current_exception();
      }
      events_.push_back(std::move(one.event));
    }
    const std::span<ProfileEvent> own = std::span(events_).subspan(first);
    find_own_parts(own);
    std::ranges::stable_sort(own, [](const ProfileEvent& a, const ProfileEvent& b) {
      return a.start != b.start ? a.start < b.start : a.depth < b.depth;
    });
  }
  dropped_ = s.dropped;
  s.bases.clear();
  if (lost) std::rethrow_exception(lost);
}

const std::vector<ProfileEvent>& Profile::events() {
  stop();
  return events_;
}

}  // namespace mantissa
