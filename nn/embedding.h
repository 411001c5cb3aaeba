// Embedding: indices i64 [*] -> [*, dim], rows of weight [count, dim], as torch.nn.Embedding (normal
// initialisation, no padding index).
#pragma once

#include "core/ops.h"
#include "nn/fields.h"
#include "nn/init.h"

namespace mantissa::nn {

class Embedding {
 public:
  Embedding(std::int64_t count, std::int64_t dim) : weight(empty({count, dim})) { init::normal_(weight); }
  Tensor operator()(const Tensor& indices) const { return embedding(weight, indices); }

  Param weight;
  MANTISSA_FIELDS(weight)
  Embedding clone() const {
    Embedding c;
    c.weight = nn::clone(weight);
    return c;
  }

 private:
  Embedding() = default;
};

}  // namespace mantissa::nn
