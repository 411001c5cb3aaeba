// Weight normalisation (Salimans and Kingma, 2016), as torch.nn.utils.parametrizations.weight_norm: the weight is g * v
// / |v|, with one norm of v per slice along a dimension.
//
//   nn::Parametrized<nn::Conv2d, nn::WeightNorm> conv{nn::Conv2d(3, 8, 3)};
//   auto out = nn::weight_norm(nn::Linear(8, 2));
//   nn::Linear plain = out.remove();
#pragma once

#include <optional>

#include "core/ops.h"
#include "nn/copy_fields.h"
#include "nn/parametrize.h"

namespace mantissa::nn {

struct WeightNormOptions {
  std::optional<int> dim = 0;  // each slice along it has its own norm; not negative; absent: one norm of all of v
};

class WeightNorm {
 public:
  explicit WeightNorm(const Tensor& weight, const WeightNormOptions& o = {}) : original1(weight) {
    check(!o.dim || (*o.dim >= 0 && *o.dim < weight.dim()), "WeightNorm: dim ", o.dim.value_or(0),
          " is out of range for ", weight, "; leave it out for one norm of all");
    for (int d = 0; d < weight.dim(); ++d)
      if (o.dim && d != *o.dim) summed_.push_back(d);
    one_ = !o.dim;
    original0 = Param(size());
  }
  Tensor operator()() const { return original1 * (original0 / size()); }

  Param original0, original1;  // g: [1, ..., n, ..., 1], or [] for one norm; v: shape of the weight
  MANTISSA_FIELDS(original0, original1)
  WeightNorm clone() const {
    WeightNorm c;
    copy_fields(*this, c);
    c.summed_ = summed_;
    c.one_ = one_;
    return c;
  }

 private:
  WeightNorm() = default;
  Tensor size() const {  // |v|
    if (one_) return norm(original1);
    return summed_.empty() ? abs(original1) : norm(original1, 2, summed_, true);
  }
  Dims summed_;
  bool one_ = false;
};

template <WeightedLayer Layer>
Parametrized<Layer, WeightNorm> weight_norm(Layer layer, const WeightNormOptions& o = {}) {
  return Parametrized<Layer, WeightNorm>(std::move(layer), o);
}

}  // namespace mantissa::nn
