// Autotuner: which of several algorithms for the same work is fastest on this processor. Timed in real calls, then
// cached on disk.
//
// $MANTISSA_TUNER=on   shapes not yet known are timed: their first calls use the algorithms in turn (each gives a
//                      correct result, with different rounding), then the fastest is cached
// $MANTISSA_TUNER=off  a fixed rule by shape; nothing is read or written
// unset                the cached choice, else the rule: the same bits in every run, as nothing is timed
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
void set_mode(Mode mode);  // for tests; initially from $MANTISSA_TUNER

std::optional<std::string> kept(const std::string& key);
void keep(const std::string& key, const std::string& way);
// Processor, instruction set and library version: what a cached choice is valid for.
const std::string& machine();
// Drops what was read and uses `path` from now on, creating it when a choice is cached; for tests.
void use_file(const std::string& path);

// The trials for one shape. Thread-safe.
class Trials {
 public:
  explicit Trials(std::size_t ways) : best_(ways, -1.0) {}
  std::size_t next();  // the algorithm to time next
  std::optional<std::size_t> took(std::size_t way,
                                  double seconds);  // the winner, returned once, after all have been timed often enough

 private:
  static constexpr std::size_t samples = 3;  // the first one includes compilation and cold caches
  std::mutex mutex_;
  std::vector<double> best_;
  std::size_t begun_ = 0, ended_ = 0;
};

}  // namespace mantissa::tuner
