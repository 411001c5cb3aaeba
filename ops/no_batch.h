// Unbatched images [C, H, W], and lines and volumes likewise: convolution and pooling treat them as a batch of one.
#pragma once

#include "core/ops.h"

namespace mantissa {

// Whether x is [C, ...] with `spatial` dimensions after the channels.
inline bool has_no_batch(const Tensor& x, int spatial) { return x.defined() && x.dim() == spatial + 1; }
inline Tensor as_batch(const Tensor& x) { return unsqueeze(x, 0); }
inline Tensor without_batch(const Tensor& y) { return squeeze(y, 0); }
inline ValuesIndices without_batch(const ValuesIndices& y) { return {squeeze(y.values, 0), squeeze(y.indices, 0)}; }

}  // namespace mantissa
