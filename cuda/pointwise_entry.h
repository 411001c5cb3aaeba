// The table of elementwise launches for host code: see cuda/pointwise_tiles.cuh.
#pragma once

#include "cuda/elementwise.h"

namespace mantissa::cuda_backend {

using PointwiseLaunch = void (*)(const void* formula, const ElementwiseLoop& loop);
struct PointwiseEntry { PointwiseLaunch f32 = nullptr, f64 = nullptr, i64 = nullptr; };

inline constexpr int pointwise_files = 8;
extern const PointwiseEntry* const pointwise_0;
extern const PointwiseEntry* const pointwise_1;
extern const PointwiseEntry* const pointwise_2;
extern const PointwiseEntry* const pointwise_3;
extern const PointwiseEntry* const pointwise_4;
extern const PointwiseEntry* const pointwise_5;
extern const PointwiseEntry* const pointwise_6;
extern const PointwiseEntry* const pointwise_7;

}  // namespace mantissa::cuda_backend
