// Arithmetic on shapes and strides: pure functions over values, no tensors.
// Every product of sizes in the project goes through checked_numel / checked_nbytes, so that a
// hostile shape is an error and never a wrapped multiplication.
#pragma once

#include <cstdint>

#include "core/dims.h"
#include "core/dtype.h"

namespace mantissa {

std::int64_t checked_numel(const Dims& sizes);                 // throws on a negative size or overflow
std::int64_t checked_nbytes(const Dims& sizes, Dtype dtype);   // the same, and at most 2^47 bytes
inline std::int64_t numel_of(const Dims& sizes) {              // for sizes already checked
  std::int64_t n = 1;
  for (std::int64_t s : sizes) n *= s;
  return n;
}

Dims contiguous_strides(const Dims& sizes);
bool is_contiguous(const Dims& sizes, const Dims& strides);    // row-major; size-1 dims may stride anyhow
bool is_channels_last(const Dims& sizes, const Dims& strides); // 4-d, NCHW in NHWC order

// The order of the elements of images [N, C, H, W] in memory: as the sizes say, or N, H,
// W, C (PyTorch's memory_format).
enum class Layout : std::uint8_t { contiguous, channels_last };
// Strides of a dense tensor; channels_last needs four dimensions, other ranks are contiguous.
Dims dense_strides(const Dims& sizes, Layout layout);
// channels_last when it is that and not contiguous too (one channel, one pixel and no element are both); every
// other tensor counts as contiguous.
Layout layout_of(const Dims& sizes, const Dims& strides);

// The common shape of two operands by NumPy's rule; throws "sizes [2, 3] and [4] do not broadcast".
Dims broadcast(const Dims& a, const Dims& b);
// Strides that make a tensor of `sizes` look like `target` (0 where it repeats).
Dims broadcast_strides(const Dims& sizes, const Dims& strides, const Dims& target);
// Strides of `sizes` viewed as `shape` without a copy; false when no such strides exist.
bool view_strides(const Dims& sizes, const Dims& strides, const Dims& shape, Dims* out);
// Replaces one -1 in `shape` by what `numel` leaves for it; throws when it does not fit.
Dims infer_shape(const Dims& shape, std::int64_t numel);
// dim in [-rank, rank) to [0, rank); throws "dim 5 is out of range for 2 dimensions".
int wrap_dim(std::int64_t dim, int rank);

// Operands of an elementwise loop after merging neighbouring dimensions that every operand walks
// alike. Usually one dimension is left; kernels loop over the last and index the others.
struct Loop {
  static constexpr int max_operands = 5;
  Dims sizes;                  // merged; never empty: a scalar is [1]
  Dims strides[max_operands];  // in elements
};
Loop collapse(const Dims& sizes, const Dims* const* strides, int operands);
// The same for loops that may walk in any order: dimensions are first sorted as they lie in the memory of operand 0,
// the result, so that the innermost is dense also for channels-last images.
Loop collapse_in_memory_order(const Dims& sizes, const Dims* const* strides, int operands);

}  // namespace mantissa
