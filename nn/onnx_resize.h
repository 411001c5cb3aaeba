// ONNX's Resize, and Upsample of old opsets: all its ways to find where in the image a pixel of the result lies, to
// interpolate there, and to treat borders. What nn::interpolate says is left to it; the rest is a product with a matrix
// for each dimension that changes, whose rows say of which pixels a new one is made.
#pragma once

#include "nn/onnx_program.h"

namespace mantissa::nn::onnx {

Run resize(Node& n);

}  // namespace mantissa::nn::onnx
