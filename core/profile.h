// Where the time of a program goes, operator by operator:
//
//   Profile profile;                       // from here on every operator of every thread is recorded
//   for (int i = 0; i < 10; ++i) {
//     ProfileRange range("step");          // names a part of the program
//     train_step();
//   }
//   profile.stop();
//   fmt::print("{}", profile.table());     // operators, those that took the most time first
//   io::save_trace("step.json", profile);  // a picture of it for ui.perfetto.dev (io/trace_file.h)
//
// Operators, gradient rules, optimizer steps, clipping, the gradient scaler, loaders, copies to the host and captured
// steps are ranges by themselves. On CUDA a range also knows how long the device was at it: from the moment the stream
// came to its first launch to the moment it was through with the last. Where the host is slower than the device this
// contains the waiting for the next launch. While jit::capture records a step nothing of it runs, and ranges there
// have no device time; a replay is one range.
//
// Without a Profile a range costs one load and two tests. What it costs with one: docs/performance.md.
// As torch.profiler; its schedule is a Profile made, and stopped, at the steps wanted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"

namespace mantissa {

class Tensor;

enum class ProfileKind : std::uint8_t {
  op,        // an operator, or an in-place member of Tensor
  backward,  // a gradient rule, named after its operator
  library,   // a larger part of the library: backward as a whole, an optimizer's step, a loader's batch
  user,      // a ProfileRange of the program
};

struct ProfileOptions {
  bool shapes = false;  // remember what operators were given; calls with other shapes are other rows of the table
  bool memory = false;  // count the bytes that a range allocates, less those that it gives back
  // Ranges beyond these are counted (dropped()) but not kept: 100 to 200 bytes each.
  std::size_t most_events = 1'000'000;
};

// One range, from its begin to its end. Times are in nanoseconds since the profile began.
struct ProfileEvent {
  const char* name = "";  // valid as long as the program
  ProfileKind kind = ProfileKind::user;
  Device device;         // of the operator's first input
  int thread = 0;        // a number per thread, in the order of their first range
  int depth = 0;         // ranges around it in its thread
  std::int64_t start = 0, duration = 0, self = 0;  // self: duration less that of the ranges inside
  // On the device, whose clock begins with its first range; -1 where it did not work for this range. A range without
  // work of its own has the sum of those inside.
  std::int64_t device_start = -1, device_duration = -1, device_self = -1;
  std::int64_t bytes = 0;  // on `device`, with ProfileOptions::memory; negative when more was given back
  std::string shapes;      // "f32[64, 10], f32[10]", with ProfileOptions::shapes
};

enum class ProfileOrder : std::uint8_t { self, total, device_self, calls, bytes };

// Records while it lives, until stop(). There can be one at a time: a second is an Error. Not for use from several
// threads at once; what it records are all threads.
class Profile {
 public:
  explicit Profile(const ProfileOptions& options = {});
  ~Profile();  // stops
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Waits for the devices that were used. Ranges that are still open end here. A second call does nothing.
  void stop();

  // These two stop it.
  const std::vector<ProfileEvent>& events();  // by thread, and then by their begin
  // The `rows` first names in that order, with calls, time in themselves and in all, and the rest in one line. By
  // default the order is by time on the device where there was one, and by time on the host elsewhere.
  std::string table(int rows = 25);
  std::string table(int rows, ProfileOrder order);

  std::size_t dropped() const { return dropped_; }  // ranges beyond most_events

 private:
  ProfileOptions options_;
  std::uint64_t session_ = 0;  // 0: stopped
  std::size_t dropped_ = 0;
  std::int64_t duration_ = 0;
  std::vector<ProfileEvent> events_;
};

namespace detail {
inline constinit std::atomic<bool> profiling = false;
}

// From its construction to the end of its scope, in one thread.
class [[nodiscard]] ProfileRange {
 public:
  // The name is kept until the program ends: one per kind of work, not one per step.
  explicit ProfileRange(std::string_view name) {
    if (detail::profiling.load(std::memory_order_relaxed)) [[unlikely]] begin_named(name);
  }
  // For the library: a name that is a constant, and what the operator was given.
  ProfileRange(ProfileKind kind, const char* name, std::span<const Tensor* const> inputs = {}) {
    if (detail::profiling.load(std::memory_order_relaxed)) [[unlikely]] begin(kind, name, inputs);
  }
  ProfileRange(ProfileKind kind, const char* name, const Tensor* input)  // null: none
      : ProfileRange(kind, name, std::span(&input, input ? 1 : 0)) {}
  ~ProfileRange() {
    if (session_ != 0) [[unlikely]] end();
  }
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

 private:
  void begin_named(std::string_view name) noexcept;
  void begin(ProfileKind kind, const char* name, std::span<const Tensor* const> inputs) noexcept;
  void end() noexcept;
  std::uint64_t session_ = 0;  // of the profile that records it; 0: none does
};

}  // namespace mantissa
