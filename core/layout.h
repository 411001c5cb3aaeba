// Arithmetic on shapes and strides: pure functions over values, no tensors. Every product of sizes in the project is
// computed by checked_numel / checked_nbytes, so that a hostile shape gives an error, never an overflow.
#pragma once

#include <cstdint>

#include "core/dims.h"
#include "core/dtype.h"

namespace mantissa {

std::int64_t checked_numel(const Dims& sizes);                 // throws on a negative size or overflow
std::int64_t checked_nbytes(const Dims& sizes, Dtype dtype);   // likewise; also throws above 2^47 bytes
inline std::int64_t numel_of(const Dims& sizes) {              // for sizes already checked
  std::int64_t n = 1;
  for (std::int64_t s : sizes) n *= s;
  return n;
}

Dims contiguous_strides(const Dims& sizes);
bool is_contiguous(const Dims& sizes, const Dims& strides);    // row-major; dims of size 1 may have any stride
bool is_channels_last(const Dims& sizes, const Dims& strides); // NCHW in NHWC order, or NCDHW in NDHWC

// Memory order of images [N, C, H, W]: N, C, H, W or N, H, W, C (PyTorch's memory_format). Volumes: likewise.
enum class Layout : std::uint8_t { contiguous, channels_last };
// Strides of a dense tensor; channels_last needs 4 or 5 dimensions, other ranks are contiguous.
Dims dense_strides(const Dims& sizes, Layout layout);
// channels_last if the tensor is so and not contiguous as well (with one channel, one pixel or no elements it is both);
// every other tensor counts as contiguous.
Layout layout_of(const Dims& sizes, const Dims& strides);

// The common shape of two operands by NumPy's rule; throws "sizes [2, 3] and [4] do not broadcast".
Dims broadcast(const Dims& a, const Dims& b);
// Strides that broadcast a tensor of `sizes` to `target` (0 for broadcast dims).
Dims broadcast_strides(const Dims& sizes, const Dims& strides, const Dims& target);
// Strides that view `sizes` as `shape` without a copy; false if there are none.
bool view_strides(const Dims& sizes, const Dims& strides, const Dims& shape, Dims* out);
// Replaces one -1 in `shape` by the size that makes its element count `numel`; throws if there is none.
Dims infer_shape(const Dims& shape, std::int64_t numel);
// dim in [-rank, rank) to [0, rank); throws "dim 5 is out of range for 2 dimensions".
int wrap_dim(std::int64_t dim, int rank);

// Operands of an elementwise loop after merging adjacent dimensions where the strides of every operand allow it.
// Usually one dimension is left; kernels loop over the last and index the others.
struct Loop {
  static constexpr int max_operands = 5;
  Dims sizes;                  // merged; never empty: for a scalar [1]
  Dims strides[max_operands];  // in elements
};
Loop collapse(const Dims& sizes, const Dims* const* strides, int operands);
// The same for loops that may run in any order: dimensions are first sorted by the memory order of operand 0, the
// result, so that the innermost is dense also for channels-last images.
Loop collapse_in_memory_order(const Dims& sizes, const Dims* const* strides, int operands);

}  // namespace mantissa
