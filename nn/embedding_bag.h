// EmbeddingBag: sums, averages or maxima of the embeddings of whole bags of indices, as
// torch.nn.EmbeddingBag. Indices [N, bag], or [count] with offsets [N], the place where each bag begins.
#pragma once

#include "core/ops.h"
#include "nn/copy_fields.h"
#include "nn/init.h"

namespace mantissa::nn {

enum class BagMode { sum, mean, max };
struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
};

class EmbeddingBag {
 public:
  EmbeddingBag(std::int64_t count, std::int64_t dim, const EmbeddingBagOptions& o = {}) : weight(empty({count, dim})), mode(o.mode) {
    init::normal_(weight);
  }
  // The result is [N, dim]; an empty bag gives zeros. per_sample_weights (sum only) are as indices.
  Tensor operator()(const Tensor& indices, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) const;

  Param weight;
  BagMode mode = BagMode::mean;
  MANTISSA_FIELDS(weight)
  EmbeddingBag clone() const {
    EmbeddingBag c;
    c.mode = mode;
    detail::copy_fields(*this, c);
    return c;
  }

 private:
  EmbeddingBag() = default;
};

}  // namespace mantissa::nn
