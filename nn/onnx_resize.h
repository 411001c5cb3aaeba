// ONNX's Resize, and Upsample of old opsets: all coordinate transformations, interpolation modes and border rules.
// Cases that nn::interpolate covers use it; the others are a matrix product per resized dimension, whose rows hold the
// interpolation weights of each output pixel.
#pragma once

#include "nn/onnx_program.h"

namespace mantissa::nn::onnx {

Run resize(Node& n);

}  // namespace mantissa::nn::onnx
