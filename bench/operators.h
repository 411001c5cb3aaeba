// Single operators, forward and backward, on inputs that both sides draw by the same formula;
// bench/torch_operators.py has the same list. Each call does the work once and returns a tensor whose sum both sides
// must agree on.
#pragma once

#include <functional>
#include <string>

#include <mantissa/mantissa.h>

namespace bench {

using Operator = std::function<mantissa::Tensor()>;

// Numbers between -0.5 and 0.5, a function of their place and the seed.
mantissa::Tensor draw(const mantissa::Dims& sizes, mantissa::Device device, std::uint32_t seed = 1);

// Throws for a name that bench/operators.py does not list.
Operator make_operator(const std::string& name, mantissa::Device device);

}  // namespace bench
