// One graph of several traces of a net (ops/onnx_trace.h), in which the sizes that may be any were different numbers:
// what differs between the traces becomes a function of them. Whatever cannot be one is an error that names it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/onnx_graph.h"

namespace mantissa {

// A size that is not known before the file is used.
struct OnnxDynamicSize {
  std::string name;                // "batch"
  int input = 0, axis = 0;         // where it is found
  std::vector<std::int64_t> each;  // what it was in each trace
};

// A number that depends on dynamic sizes: factor * (the product of some of them) + offset.
struct OnnxExpression {
  std::int64_t factor = 0, offset = 0;
  std::vector<std::size_t> sizes;
};

// `traces` differ in nothing but the sizes and values of inputs. Results without names.
OnnxGraph merge_traces(std::span<const OnnxGraph> traces, std::span<const OnnxDynamicSize> sizes);

// Drops what no output needs, refuses what one needs that cannot be exported, and gives every value a name: of inner
// ones that of the operator and a number.
void tidy(OnnxGraph& graph);

}  // namespace mantissa
