// Merges several traces of a model (ops/onnx_trace.h), made with different values of its dynamic sizes, into one graph:
// numbers that differ between the traces become expressions of these sizes. A difference that cannot be expressed is an
// error that names it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/onnx_graph.h"

namespace mantissa {

// A size that is unknown at export.
struct OnnxDynamicSize {
  std::string name;                // "batch"
  int input = 0, axis = 0;         // the model input and dimension that have this size
  std::vector<std::int64_t> each;  // its value in each trace
};

// A number that depends on dynamic sizes: factor * (product of some of them) + offset.
struct OnnxExpression {
  std::int64_t factor = 0, offset = 0;
  std::vector<std::size_t> sizes;
};

// `traces` may differ only in the sizes and values of inputs. The result's values are unnamed.
OnnxGraph merge_traces(std::span<const OnnxGraph> traces, std::span<const OnnxDynamicSize> sizes);

// Removes nodes that no output needs, throws if an output needs an operator that cannot be exported, and names every
// value: inner ones by their operator and a number.
void tidy(OnnxGraph& graph);

}  // namespace mantissa
