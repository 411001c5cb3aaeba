// The CPU convolution algorithms behind kernels::conv2d. Each is a function of a Call and cuts its work by shape alone;
// all agree up to rounding. core/conv_choice.cpp chooses one.
#pragma once

#include <span>
#include <string>

#include "core/conv.h"
#include "core/onednn.h"

namespace mantissa::conv {

enum class Way {
  channels_last,     // oneDNN over NHWC images, in their own dtype
  blocked,           // oneDNN over its own blocks of channels, reordered on the way in and out
  library_winograd,  // the same by Winograd's F(4x4, 3x3), f32
  winograd,          // Mantissa's F(4x4, 3x3) over channels-last images, f32 arithmetic
  depthwise,         // weight gradient of depthwise convolutions on channels-last images, f32 arithmetic
  few_pixels,        // a product with one row per pixel, weight not packed; forward
  taps,              // weight gradients: one matrix product per kernel position
  unfolded,          // im2col and a matrix product; the only one for f64
};
const char* name_of(Way way);

struct Call {
  ConvPass pass;
  const ConvShape& shape;
  const View &y, &a, &b, &bias;
  KeptWeight kept = {};  // of the weight b
};
struct Problem {
  ConvPass pass;
  ConvShape shape;
  Dtype dtype;
  bool bias;
  bool winograd = true;  // whether its rounding errors are acceptable
  friend bool operator==(const Problem&, const Problem&) = default;
};

bool applies(Way way, const Problem& p);  // whether it supports this problem here at a reasonable speed
void run(Way way, const Call& call);

// The fixed rule: a function of the problem and the processor.
Way rule(const Problem& p);
// Runs the tuned and cached choice for this call, else the rule's (core/tuner.h).
void run_chosen(const Call& call);

// --- the algorithms (core/conv_*.cpp) ---
void run_library(onednn::ConvKernel kernel, const Call& call);
void run_depthwise(const Call& call);
void run_few_pixels(const Call& call);
void run_taps(const Call& call);
void run_winograd(const Call& call);
void run_unfolded(const Call& call);

// --- shared helpers ---
// The dtype in which a library call multiplies tensors of `dtype`: f32 or bf16.
Dtype inner_dtype(Dtype dtype);
// Images [first, first + count) of a batch.
View images(const View& v, std::int64_t first, std::int64_t count);
bool is_last(const View& v);  // channels-last images; those of one channel or pixel are both
// `v` itself if it is dense in one of the two layouts and has this dtype, else a contiguous copy owned by `keep`.
View dense(const View& v, Dtype dtype, Tensor& keep);
View contiguous(const View& v, Dtype dtype, Tensor& keep);
// y = the sum of `count` partial results of y's size, added in order; y is a contiguous weight of any floating dtype.
void add_partials(const View& y, float* partial, std::int64_t count);

}  // namespace mantissa::conv
