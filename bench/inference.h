// Networks in evaluation that record nothing, and matrix products with few rows: what bench/inference.py measures.
// bench/torch_inference.py has the same. Weights are drawn by a formula, so that both sides have the same ones.
#pragma once

#include "operators.h"

namespace bench {

// name: "infer MODEL BATCH f32|bf16", with a model of make_workload, "gpt LENGTH", or "linear IN OUT". Empty for
// others. In bf16, weights and inputs are stored as such.
Operator make_inference(const std::string& name, mantissa::Device device);

}  // namespace bench
