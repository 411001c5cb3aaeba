// Per-operator profile of a program:
//
//   Profile profile;                       // from here on every operator of every thread is recorded
//   for (int i = 0; i < 10; ++i) {
//     ProfileRange range("step");          // names a part of the program
//     train_step();
//   }
//   profile.stop();
//   fmt::print("{}", profile.table());     // operators, those that took the most time first
//   io::save_trace("step.json", profile);  // a timeline for ui.perfetto.dev (io/trace_file.h)
//
// Operators, gradient rules, optimizer steps, clipping, the gradient scaler, loaders, copies to the host and captured
// steps are ranges by themselves. On CUDA a range also has a device time: from the moment the stream reaches its first
// launch until its last launch has finished. If the host is slower than the device, this includes waiting for the next
// launch. While jit::capture records a step nothing of it runs, and its ranges have no device time; a replay is one
// range.
//
// Without a Profile a range costs one load and two tests; for the cost with one see docs/performance.md. Modelled on
// torch.profiler; for its schedule, create and stop a Profile at the steps wanted.
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
  library,   // a larger part of the library: a whole backward pass, an optimizer step, a loader's batch
  user,      // a ProfileRange of the program
};

struct ProfileOptions {
  bool shapes = false;  // record operand shapes; the table then has one row per operator and shapes
  bool memory = false;  // count the bytes that a range allocates, minus those it frees
  bool flops = false;   // the table also has floating-point operations (core/flops.h), and their rate in self time
  // Ranges beyond this number are counted (dropped()) but not recorded; each takes 100 to 200 bytes.
  std::size_t most_events = 1'000'000;
};

// One range, from its begin to its end. Times are in nanoseconds since the profile began.
struct ProfileEvent {
  const char* name = "";  // never freed
  ProfileKind kind = ProfileKind::user;
  Device device;         // of the operator's first input
  int thread = 0;        // threads are numbered in the order of their first range
  int depth = 0;         // nesting depth in its thread
  std::int64_t start = 0, duration = 0, self = 0;  // self: duration minus that of nested ranges
  // On the device, whose clock starts with its first range; -1 if it did no work for this range. A range without work
  // of its own has the sum of its nested ranges.
  std::int64_t device_start = -1, device_duration = -1, device_self = -1;
  double flops = 0;        // of this range itself, as counted by core/flops.h
  std::int64_t bytes = 0;  // on `device`, with ProfileOptions::memory; negative if more was freed
  std::string shapes;      // "f32[64, 10], f32[10]", with ProfileOptions::shapes
};

enum class ProfileOrder : std::uint8_t { self, total, device_self, calls, bytes };

// Records from construction until stop(). Only one can exist at a time: a second is an Error. All threads are recorded,
// but the object itself must not be used from several threads at once.
class Profile {
 public:
  explicit Profile(const ProfileOptions& options = {});
  ~Profile();  // stops
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Waits for the devices that were used. Ranges still open end here. A second call does nothing.
  void stop();

  // These two call stop().
  const std::vector<ProfileEvent>& events();  // sorted by thread, then by start
  // The first `rows` names, with number of calls, self and total time; one line for the rest. Sorted by device time if
  // there is any, else by host time.
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

// A range from construction to destruction, in one thread.
class [[nodiscard]] ProfileRange {
 public:
  // The name is kept until the program ends: use one per kind of work, not one per step.
  explicit ProfileRange(std::string_view name) {
    if (detail::profiling.load(std::memory_order_relaxed)) [[unlikely]] begin_named(name);
  }
  // For use in the library: a constant name, and the operator's inputs.
  ProfileRange(ProfileKind kind, const char* name, std::span<const Tensor* const> inputs = {}) {
    if (detail::profiling.load(std::memory_order_relaxed)) [[unlikely]] begin(kind, name, inputs);
  }
  ProfileRange(ProfileKind kind, const char* name, const Tensor* input)  // null: no input
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
  std::uint64_t session_ = 0;  // the recording profile; 0: none
};

}  // namespace mantissa
