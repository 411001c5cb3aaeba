// The only door to oneDNN; core/onednn.cpp is the only file that includes its headers, so that
// another version of the library is a local change.
// Everything here computes on the calling thread alone: callers cut their work into pieces by shape
// and run them under parallel_for, which keeps results the same for any number of threads.
// The library uses no newer instruction set than $MANTISSA_ISA says, unless its own $ONEDNN_MAX_CPU_ISA is set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/conv.h"

namespace mantissa::onednn {

std::string version();  // "2.6.3"
// Whether products of bf16 are computed by instructions made for them (AVX512_BF16, f32 sums). Where they are
// not, the library imitates them and f32 is faster: callers widen.
bool has_bf16();

// c [m, n] = a @ b + beta * c, row-major with distances between rows in elements. With transpose_a
// the memory of a is [k, m], with transpose_b that of b is [n, k].
void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
           std::int64_t a_row, const float* b, std::int64_t b_row, float beta, float* c, std::int64_t c_row);

// The kernel families of the library: over images in N, H, W, C order; over its own blocks of 16 (or 8) channels;
// Winograd's F(4x4, 3x3) over such blocks. With the last two, images are reordered on the way in and out.
enum class ConvKernel { channels_last, blocked, winograd };

struct ConvolutionKey {
  ConvKernel kernel = ConvKernel::blocked;
  ConvPass pass = ConvPass::forward;
  ConvShape shape = {};
  Dtype dtype = f32;  // f32 or bf16, of everything but the result of a weight gradient, which is always f32
  bool bias = false;  // forward only; of the same dtype
  bool wide = false;  // an input's gradient is f32, whatever the operands are
  // Which of the operands and the result are images in channels-last order; the others are contiguous.
  bool a_last = false, b_last = false, y_last = false;
  friend bool operator==(const ConvolutionKey&, const ConvolutionKey&) = default;
};

// One convolution, or one of its gradients, on tensors of a fixed shape and layout. The operands of each pass are
// those of kernels::conv2d (core/conv.h); a weight is contiguous.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual std::string name() const = 0;  // of the library's kernel, "brgconv:avx512_core"
  // The weight in the library's own layout: packed once, used by many calls of run. Not for weight gradients.
  virtual std::size_t packed_bytes() const = 0;
  // In pieces that different threads may do.
  virtual std::int64_t pack_pieces() const = 0;
  virtual void pack(const void* weight, void* packed, std::int64_t piece) const = 0;
  virtual bool packs_like(const Convolution& other) const = 0;
  // Thread-safe. `b` is the packed weight, or of a weight gradient the images that the result had. `bias` may be null.
  virtual void run(const void* a, const void* b, const void* bias, void* y) const = 0;
};
// Made at the first call for a key, then kept: making one compiles machine code. Null where the library has only slow
// code for it on this processor; with `any_speed`, that code.
std::shared_ptr<const Convolution> convolution(const ConvolutionKey& key, bool any_speed = false);

// c [m, n] f32 = transpose(a [k, m]) @ b [k, n], plus c where `accumulate`; a and b f32 or bf16, c with rows of n
// elements. Held like a convolution.
struct ProductKey {
  Dtype dtype = f32;
  std::int64_t m = 0, n = 0, k = 0, a_row = 0;  // a_row: elements between rows of a
  bool accumulate = false;
  friend bool operator==(const ProductKey&, const ProductKey&) = default;
};
class Product {
 public:
  virtual ~Product() = default;
  virtual void run(const void* a, const void* b, float* c) const = 0;  // thread-safe
};
std::shared_ptr<const Product> product(const ProductKey& key);

}  // namespace mantissa::onednn
