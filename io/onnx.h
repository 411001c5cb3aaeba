// Writes a graph of ONNX operators (core/onnx_graph.h) as a .onnx file, which ONNX Runtime, TensorRT, OpenVINO and
// others run. Who has a net calls nn::save_onnx (nn/onnx.h).
#pragma once

#include <string>

#include "core/onnx_graph.h"

namespace mantissa::io {

// Opsets that can be written, and how new a reader has to be for them.
inline constexpr int oldest_onnx_opset = 17, newest_onnx_opset = 22;

// Every value has a name. All or nothing, as io/file.h has it. Constants lie in the file: what would be longer than
// the 2 GiB of a protocol buffer is refused.
void write_onnx(const std::string& path, const OnnxGraph& graph);

}  // namespace mantissa::io
