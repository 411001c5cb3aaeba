// Low-precision copies made by autocast regions, with statistics. A parameter's copy ("shadow") is made once and kept
// on its LeafNode until the parameter changes; its gradients accumulate directly into the parameter's f32 gradient. It
// records the version it was made from, so it is never stale, and is freed with its parameter. Optimizers refresh it in
// their update kernel: a steady-state training step casts no weights. amp/frozen.h does the same for frozen weights.
// CastCache (core/context.h) determines how long shadows live.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace mantissa::amp {

// The shadow of a parameter, made or refreshed if necessary. Its gradient is the parameter's.
Tensor shadow(const Tensor& parameter, Dtype dtype);

// `x` as an operator with policy `lower` would receive it: in a region its shadow or cast, else x. For layers that
// slice a parameter: a slice is not a parameter and would be cast at each use.
Tensor lowered(const Tensor& x);

// Bytes that the shadows of these parameters hold now; drop_shadows frees them, and the next region makes them again.
// Those that a captured step uses (jit/capture.h) stay until it is reset.
std::int64_t shadow_bytes(std::span<const Tensor> parameters);
void drop_shadows(std::span<const Tensor> parameters);

// Shadows of all parameters, in all threads.
struct ShadowMemory {
  std::int64_t bytes = 0, peak_bytes = 0;
};
ShadowMemory shadow_memory();
void reset_peak_shadow_memory();
// Limits the total size of shadows: a parameter whose shadow would exceed it is cast at each use instead, with the same
// results. Existing shadows stay. Default: no limit.
void set_shadow_budget(std::int64_t bytes);

// Autocast's work in this thread since the thread started.
struct CastStatistics {
  std::uint64_t casts = 0;   // of non-parameters, and of parameters without a shadow
  std::uint64_t misses = 0;  // parameters whose shadow was made or refreshed
  std::uint64_t hits = 0;    // parameters whose shadow was up to date
  std::int64_t bytes = 0;    // written by casts and misses
};
CastStatistics cast_statistics();
inline std::uint64_t cast_count() { return cast_statistics().casts + cast_statistics().misses; }

// Internal: a region's cast of one input.
Tensor cast_in_region(const Tensor& x, Dtype to);
// Internal: called when this thread's outermost region ends; drops casts kept by CastCache::until_exit.
void end_of_regions();

}  // namespace mantissa::amp
