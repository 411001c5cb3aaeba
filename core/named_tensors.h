// Tensors with names, in an order: what state_dict() gives, load_state_dict() takes and files contain.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace mantissa {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

}  // namespace mantissa
