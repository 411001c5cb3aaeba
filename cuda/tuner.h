// Which of several ways does the same work fastest on this GPU: tried once for each key, then remembered.
// Every way is first held against the first one: one whose result differs by more than rounding is reported and never
// used. While a graph is captured nothing is timed; a key not yet known gets the first way that applies.
//
// $MANTISSA_TUNER=off  no timing: always the first way that applies
// $MANTISSA_TUNER_FILE=path  the choices are read from this file at start and added to it (one JSON object a line)
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

// Does the work and returns the index of the way that did it. `result` is what the ways write; `repeatable` is false
// where a second run would give another result (c += a @ b), and then nothing is timed. Throws if no way applies.
std::size_t run_fastest(const std::string& key, std::span<const Way> ways, const View& result, bool repeatable);

}  // namespace mantissa::cuda_backend
