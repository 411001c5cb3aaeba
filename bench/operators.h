// Single operators, forward and backward, on inputs that both sides draw by the same formula;
// bench/torch_operators.py has the same list. Each call does the work once and returns a tensor whose sum both sides
// must agree on.
#pragma once

#include <functional>
#include <string>

#include <mantissa/mantissa.h>

namespace bench {

using Operator = std::function<mantissa::Tensor()>;

// Throws for a name that bench/operators.py does not list.
Operator make_operator(const std::string& name, mantissa::Device device);

}  // namespace bench
