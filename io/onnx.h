// Writes a graph of ONNX operators (core/onnx_graph.h) as a .onnx file, for ONNX Runtime, TensorRT, OpenVINO and
// others. To export a net use nn::save_onnx (nn/onnx.h).
#pragma once

#include <string>

#include "core/onnx_graph.h"

namespace mantissa::io {

// The opsets that can be written.
inline constexpr int oldest_onnx_opset = 17, newest_onnx_opset = 22;

// All values must have names. All or nothing, as in io/file.h. Constants are stored in the file: Error if it would
// exceed protobuf's 2 GiB.
void write_onnx(const std::string& path, const OnnxGraph& graph);

}  // namespace mantissa::io
