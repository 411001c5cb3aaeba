// Which of several ways to do the same work is fastest on this processor: timed in real calls, then kept on disk.
//
// $MANTISSA_TUNER=on   work of a shape not yet known is timed: its first calls take the ways in turn (each gives a
//                      correct result, in other last bits), then the fastest is kept
// $MANTISSA_TUNER=off  a fixed rule by shape; nothing is read or written
// unset                what was kept, else the rule: the same bits in every run, as nothing is timed
// The file is cpu.jsonl in the cache folder (core/choices.h). GPUs have cuda/tuner.h, which times by default.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mantissa::tuner {

enum class Mode { off, kept, on };
Mode mode();
void set_mode(Mode mode);  // for tests; the start is $MANTISSA_TUNER

std::optional<std::string> kept(const std::string& key);
void keep(const std::string& key, const std::string& way);
// The processor, its instruction set and the library: what a choice holds for.
const std::string& machine();
// Forgets what was read and reads `path` from now on, creating it when something is kept; for tests.
void use_file(const std::string& path);

// The trials for one shape. Thread-safe.
class Trials {
 public:
  explicit Trials(std::size_t ways) : best_(ways, -1.0) {}
  std::size_t next();  // the way to time now
  std::optional<std::size_t> took(std::size_t way,
                                  double seconds);  // the winner, told once, when all have been timed enough

 private:
  static constexpr std::size_t samples = 3;  // the first one compiles, and meets cold memory
  std::mutex mutex_;
  std::vector<double> best_;
  std::size_t begun_ = 0, ended_ = 0;
};

}  // namespace mantissa::tuner
