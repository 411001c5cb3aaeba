// Finds the fastest of several implementations ("ways") on this GPU: timed once per key, then remembered. Each is first
// compared with the first one: one whose result differs by more than rounding, or that throws where the first one did
// not, is reported and never used. Nothing is timed while a graph is captured; an unknown key then uses the first
// applicable way.
//
// $MANTISSA_TUNER=off  no timing, and no file is read or written: always the first applicable way
// anything else        timed once, then stored in cuda.jsonl in the cache folder (core/choices.h), per GPU model and
//                      CUDA version
// $MANTISSA_TUNER_SKIP=hopper,cudnn   excludes ways whose names begin with these, timed or not, if one hangs or fails:
//                      "mma", "hopper", "hopper_pair", "hopper_shares", "hopper_split", "plain", "cublaslt",
//                      "cublaslt_epilogue", for convolutions "cudnn", "unfold", for attention "own", "cudnn"
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/tensor.h"
#include "core/tf32.h"

namespace mantissa::cuda_backend {

struct Way {
  std::string name;            // as stored in the file, such as "mma 128x1"
  std::function<bool()> run;   // does the work on the current stream; false if not applicable
};

struct Written {  // everything that the ways write
  std::span<const View> results;
  bool adds = false;                     // they accumulate (c += a @ b): the results are restored between runs
  std::optional<Dtype> rounded_to = {};  // dtype that some ways round to before storing, if coarser
};

struct Choice {
  std::size_t way;       // the one that did the work
  bool settled;          // it will be chosen again: the caller may call it directly
  bool measured = true;  // to be stored for other processes; false if memory for some way was lacking
};

// Does the work, once, with the fastest known way, or determines it. Throws if no way applies.
Choice run_fastest(const std::string& key, std::span<const Way> ways, const Written& written);

// Times the ways and chooses the fastest that agrees with the first applicable one. On return the work has been done
// exactly once. Without memory for copies of the results the first applicable way is used, and settled: each attempt
// empties the memory cache, which must not happen in every step. `time_of` may run a way many times; tests replace it.
Choice find_fastest(const std::string& key, std::span<const Way> ways, const Written& written,
                    const std::function<float(const Way&)>& time_of);

// Whether $MANTISSA_TUNER_SKIP excludes the way with this name.
bool is_skipped(std::string_view name);

// Occupies the current stream for so long, and the host not at all (cuda/spin.cu).
void keep_busy(std::chrono::nanoseconds time);

// Whether two results of the same sizes and dtype agree up to rounding to a dtype (default: their own): no difference
// above 1e-3 of the largest element (4e-3 in f16, 2e-2 in bf16). If one overflows the other must too, or come close.
// Waits for the device.
bool agree(const View& a, const View& b, std::optional<Dtype> rounded_to = {});

// Dtype as precise as the operands of products in a dtype: TF32 has the mantissa of f16.
inline Dtype rounding_of(Dtype operands) { return operands == f32 && is_tf32_allowed() ? f16 : operands; }

// Settled choices by a numeric form of the key: known work finds its way without building the key string.
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
