// The only door to oneDNN; core/onednn.cpp is the only file that includes its headers, so that
// another version of the library is a local change.
// Everything here computes on the calling thread alone: callers cut their work into pieces by shape
// and run them under parallel_for, which keeps results the same for any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/conv.h"

namespace mantissa::onednn {

// c [m, n] = a @ b + beta * c, row-major with distances between rows in elements. With transpose_a
// the memory of a is [k, m], with transpose_b that of b is [n, k].
void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
           std::int64_t a_row, const float* b, std::int64_t b_row, float beta, float* c, std::int64_t c_row);

// One convolution, or one of its gradients, in f32 on contiguous tensors of a fixed shape. The
// operands of each pass are those of kernels::conv2d (core/conv.h).
class Convolution {
 public:
  virtual ~Convolution() = default;
  // The second operand in the library's own layout: packed once, used by many calls of run.
  virtual std::size_t packed_bytes() const = 0;
  virtual void pack(const float* b, void* packed) const = 0;
  // Thread-safe. `bias` may be null; forward only.
  virtual void run(const float* a, const void* packed, const float* bias, float* y) const = 0;
};
// Made at the first call for a shape, then kept: making one compiles machine code.
std::shared_ptr<const Convolution> convolution(ConvPass pass, const ConvShape& shape, bool bias);

}  // namespace mantissa::onednn
