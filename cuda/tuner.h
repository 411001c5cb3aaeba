// Which of several ways does the same work fastest on this GPU: tried once for each key, then remembered.
// Every way is first held against the first one: one whose result differs by more than rounding is reported and never
// used. While a graph is captured nothing is timed; a key not yet known gets the first way that applies.
//
// $MANTISSA_TUNER=off  no timing, and nothing is read or written: always the first way that applies
// anything else        timed once, then kept in cuda.jsonl in the cache folder (core/choices.h), for this kind of GPU and
//                      this version of CUDA
#pragma once

#include <functional>
#include <span>
#include <string>

#include "core/tensor.h"

namespace mantissa::cuda_backend {

struct Way {
  std::string name;            // what the file holds, as "mma 128x1"
  std::function<bool()> run;   // does the work on the current stream; false where it does not apply
};

struct Choice {
  std::size_t way;  // did the work
  bool settled;     // and will do it again: a caller may go straight to it next time
};

// Does the work by the way known to be fastest, or finds that out. `results` is what the ways write, all of it;
// `repeatable` is false where a second run would give another result (c += a @ b), and then nothing is timed. Throws if
// no way applies.
Choice run_fastest(const std::string& key, std::span<const Way> ways, std::span<const View> results, bool repeatable);
inline Choice run_fastest(const std::string& key, std::span<const Way> ways, const View& result, bool repeatable) {
  return run_fastest(key, ways, std::span(&result, 1), repeatable);
}

}  // namespace mantissa::cuda_backend
