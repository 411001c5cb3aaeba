// EmbeddingBag: the sum, mean or maximum of the embeddings of each bag of indices, as torch.nn.EmbeddingBag. Indices
// [N, bag], or [count] with offsets [N], the start of each bag.
#pragma once

#include <optional>

#include "core/ops.h"
#include "nn/copy_fields.h"
#include "nn/init.h"

namespace mantissa::nn {

enum class BagMode { sum, mean, max };
struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  std::optional<double> max_norm = {};           // rows used are first scaled down to this norm, in place
  double norm_type = 2;
  bool scale_grad_by_freq = false;               // as in EmbeddingOptions; not for max
  bool include_last_offset = false;              // offsets [N + 1]: the last is the number of indices
  std::optional<std::int64_t> padding_idx = {};  // this index is left out of every bag
};

class EmbeddingBag {
 public:
  EmbeddingBag(std::int64_t count, std::int64_t dim, const EmbeddingBagOptions& o = {});
  // Returns [N, dim]; an empty bag gives zeros. per_sample_weights (sum only): shape of indices.
  Tensor operator()(const Tensor& indices, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) const;

  Param weight;
  EmbeddingBagOptions options;
  MANTISSA_FIELDS(weight)
  EmbeddingBag clone() const {
    EmbeddingBag c;
    c.options = options;
    copy_fields(*this, c);
    return c;
  }

 private:
  EmbeddingBag() = default;
};

}  // namespace mantissa::nn
