// Which of several ways does the same work fastest on this GPU: tried once for each key, then remembered.
// Every way is first held against the first one: one whose result differs by more than rounding is reported and never
// used. While a graph is captured nothing is timed; a key not yet known gets the first way that applies.
//
// $MANTISSA_TUNER=off  no timing, and nothing is read or written: always the first way that applies
// anything else        timed once, then kept in cuda.jsonl in the cache folder (core/choices.h), for this kind of GPU
//                      and this version of CUDA
// $MANTISSA_TUNER_SKIP=hopper,cudnn   leaves out ways whose names begin so, timed or not, where one hangs or fails:
//                      "mma", "hopper", "cublaslt", "cublaslt_epilogue", of convolutions "cudnn", "unfold", of
//                      attention "own", "cudnn"
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>

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

// Whether two results of the same sizes and dtype are the same up to rounding of that dtype: no difference
// above 1e-3 of the largest element (4e-3 in f16, 2e-2 in bf16). Where one overflows the other has to, or
// come close. Waits for the device.
bool agree(const View& a, const View& b);

// What is settled, by the numbers that a key says: work that was done before finds its way without making text.
template <std::size_t n> using KeyNumbers = std::array<std::int64_t, n>;
struct HashOfNumbers {
  std::size_t operator()(std::span<const std::int64_t> numbers) const {
    std::uint64_t h = 0;
    for (const std::int64_t x : numbers) h = (h ^ static_cast<std::uint64_t>(x)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return h;
  }
};
template <std::size_t n, class Way> using Settled = std::unordered_map<KeyNumbers<n>, Way, HashOfNumbers>;

}  // namespace mantissa::cuda_backend
