// Which of several ways does the same work fastest on this GPU: tried once for each key, then remembered.
// Every way is first held against the first one: one whose result differs by more than rounding, or that throws where
// the first one did not, is reported and never used. While a graph is captured nothing is timed; a key not yet known
// gets the first way that applies.
//
// $MANTISSA_TUNER=off  no timing, and nothing is read or written: always the first way that applies
// anything else        timed once, then kept in cuda.jsonl in the cache folder (core/choices.h), for this kind of GPU
//                      and this version of CUDA
// $MANTISSA_TUNER_SKIP=hopper,cudnn   leaves out ways whose names begin so, timed or not, where one hangs or fails:
//                      "mma", "hopper", "hopper_pair", "plain", "cublaslt", "cublaslt_epilogue", of convolutions
//                      "cudnn", "unfold", of attention "own", "cudnn"
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/tensor.h"

namespace mantissa::cuda_backend {

struct Way {
  std::string name;            // what the file holds, as "mma 128x1"
  std::function<bool()> run;   // does the work on the current stream; false where it does not apply
};

struct Written {  // what the ways write, all of it
  std::span<const View> results;
  bool adds = false;                     // they add to it (c += a @ b): it is put back before another one is run
  std::optional<Dtype> rounded_to = {};  // by some ways before they store it, when that is coarser than its dtype
};

struct Choice {
  std::size_t way;       // did the work
  bool settled;          // and will do it again: a caller may go straight to it next time
  bool measured = true;  // to be kept for other processes; false where memory for some way was lacking
};

// Does the work, once, by the way known to be fastest, or finds that out. Throws if no way applies.
Choice run_fastest(const std::string& key, std::span<const Way> ways, const Written& written);

// Finds it out: which way has the shortest time of those that agree with the first that applies. In the end that one
// has done the work, once. Without memory for copies of the results the first that applies has: settled all the same,
// because the attempt empties the cache of memory and would do so in every step. A way may run often in `time_of`,
// which tests replace.
Choice find_fastest(const std::string& key, std::span<const Way> ways, const Written& written,
                    const std::function<float(const Way&)>& time_of);

// Whether $MANTISSA_TUNER_SKIP leaves out the way of this name.
bool is_skipped(std::string_view name);

// Whether two results of the same sizes and dtype are the same up to rounding to a dtype, theirs by default: no
// difference above 1e-3 of the largest element (4e-3 in f16, 2e-2 in bf16). Where one overflows the other has to, or
// come close. Waits for the device.
bool agree(const View& a, const View& b, std::optional<Dtype> rounded_to = {});

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
