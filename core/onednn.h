// The only interface to oneDNN; core/onednn.cpp is the only file that includes its headers, so that changing the
// library's version is a local change.
// Everything here computes on the calling thread alone: callers cut their work into pieces by shape and run them under
// parallel_for, which keeps results the same for any number of threads. The library uses no newer instruction set than
// $MANTISSA_ISA names, unless its own $ONEDNN_MAX_CPU_ISA is set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/conv.h"

namespace mantissa::onednn {

std::string version();  // "2.6.3"
// Whether bf16 products use dedicated instructions (AVX512_BF16, f32 sums). If not, the library emulates them and f32
// is faster, so callers convert to f32.
bool has_bf16();

// c [m, n] = a @ b + beta * c, row-major, row strides in elements. With transpose_a, a is stored as [k, m]; with
// transpose_b, b is stored as [n, k].
void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
           std::int64_t a_row, const float* b, std::int64_t b_row, float beta, float* c, std::int64_t c_row);

// The library's kernel families: over NHWC images; over its own blocks of 16 (or 8) channels; Winograd F(4x4, 3x3) over
// such blocks. For the last two, images are reordered on the way in and out.
enum class ConvKernel { channels_last, blocked, winograd };

struct ConvolutionKey {
  ConvKernel kernel = ConvKernel::blocked;
  ConvPass pass = ConvPass::forward;
  ConvShape shape = {};
  Dtype dtype = f32;  // f32 or bf16, of everything except the result of a weight gradient, which is always f32
  bool bias = false;  // forward only; of the same dtype
  bool wide = false;  // the input gradient is f32, whatever the operands' dtype
  // Which operands and results are channels-last images; the others are contiguous.
  bool a_last = false, b_last = false, y_last = false;
  friend bool operator==(const ConvolutionKey&, const ConvolutionKey&) = default;
};

// One convolution, or one of its gradients, for a fixed shape and layout. The operands of each pass are those of
// kernels::conv2d (core/conv.h); weights are contiguous.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual std::string name() const = 0;  // the library's name of the kernel, e.g. "brgconv:avx512_core"
  // The weight in the library's own layout: packed once, used by many calls of run. Not for weight gradients.
  virtual std::size_t packed_bytes() const = 0;
  // Packing is cut into pieces that may run on different threads.
  virtual std::int64_t pack_pieces() const = 0;
  virtual void pack(const void* weight, void* packed, std::int64_t piece) const = 0;
  virtual bool packs_like(const Convolution& other) const = 0;
  // Thread-safe. `b` is the packed weight; for a weight gradient, the result's gradient g. `bias` may be null.
  virtual void run(const void* a, const void* b, const void* bias, void* y) const = 0;
};
// Created at the first call for a key, then cached: creation compiles machine code. Null if the library has only slow
// code for it on this processor, unless `any_speed`.
std::shared_ptr<const Convolution> convolution(const ConvolutionKey& key, bool any_speed = false);

// c [m, n] f32 = transpose(a [k, m]) @ b [k, n], plus c if `accumulate`; a and b f32 or bf16, rows of c are n elements
// apart. Cached like a convolution.
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
