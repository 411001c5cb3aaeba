// Embedding: indices i64 [*] -> [*, dim], rows of weight [count, dim], as torch.nn.Embedding: initialised from N(0, 1);
// an index out of range is an Error.
//   nn::Embedding words{1000, 64, {.padding_idx = 0}};
#pragma once

#include <optional>

#include "core/ops.h"
#include "nn/fields.h"
#include "nn/init.h"

namespace mantissa::nn {

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  // this row starts as 0 and gets no gradient; negative: from the end
  std::optional<double> max_norm = {};           // rows looked up are first scaled down to this norm, in place
  double norm_type = 2;
  bool scale_grad_by_freq = false;               // divide a row's gradient by how often the call uses it
};

namespace detail {
// Scales rows `indices` of weight down to a norm of at most max_norm.
void renormalise_rows(const Tensor& weight, const Tensor& indices, double max_norm, double norm_type);
// `rows` = weight[indices]; divides their gradients by how often each index occurs.
Tensor scaled_by_frequency(const Tensor& rows, const Tensor& indices, std::int64_t count);
}  // namespace detail

class Embedding {
 public:
  Embedding(std::int64_t count, std::int64_t dim, const EmbeddingOptions& o = {});
  // Uses `weight` [count, dim] without copying. freeze: no gradient.
  static Embedding from_pretrained(const Tensor& weight, bool freeze = true, const EmbeddingOptions& o = {});
  Tensor operator()(const Tensor& indices) const;

  Param weight;
  EmbeddingOptions options;
  MANTISSA_FIELDS(weight)
  Embedding clone() const;

 private:
  Embedding() = default;
};

}  // namespace mantissa::nn
