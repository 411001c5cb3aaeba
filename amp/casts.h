// The low-precision copies that regions make, counted. A parameter's copy ("shadow") is made once and kept on its
// LeafNode until the parameter changes; its gradients flow straight into the parameter's f32 gradient. It carries
// the version it was made from, so it cannot be stale, and goes with its parameter, so it cannot leak. Optimizers
// refresh it in their update kernel: a steady training step casts no weight at all. amp/frozen.h does the same for
// weights that do not train. CastCache (core/context.h) says how long a region's shadows live.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace mantissa::amp {

// The shadow of a parameter, made or refreshed where needed, as a tensor whose gradient is the parameter's.
Tensor shadow(const Tensor& parameter, Dtype dtype);

// `x` as an operator with the policy `lower` gets it here: its shadow or a cast in a region, else itself. For layers
// that take slices of a parameter: a slice is no parameter and would be cast at each use.
Tensor lowered(const Tensor& x);

// Bytes that the shadows of these parameters hold now, and a way to let them go: the next region makes them anew.
std::int64_t shadow_bytes(std::span<const Tensor> parameters);
void drop_shadows(std::span<const Tensor> parameters);

// Of all parameters, in all threads.
struct ShadowMemory {
  std::int64_t bytes = 0, peak_bytes = 0;
};
ShadowMemory shadow_memory();
void reset_peak_shadow_memory();
// No shadow is made that would bring the bytes of all above `bytes`: such a parameter is cast at each use, with the
// same results. Shadows that exist stay. Default: no limit.
void set_shadow_budget(std::int64_t bytes);

// What autocast did in this thread since it started.
struct CastStatistics {
  std::uint64_t casts = 0;   // of tensors that are no parameters, and of parameters that have no shadow
  std::uint64_t misses = 0;  // of parameters: a shadow was made or refreshed
  std::uint64_t hits = 0;    // of parameters: the shadow was up to date
  std::int64_t bytes = 0;    // written by casts and misses
};
CastStatistics cast_statistics();
inline std::uint64_t cast_count() { return cast_statistics().casts + cast_statistics().misses; }

// Of the machinery: the cast that a region makes of one input.
Tensor cast_in_region(const Tensor& x, Dtype to);
// The outermost region of this thread has ended: drops what CastCache::until_exit kept till now.
void end_of_regions();

}  // namespace mantissa::amp
