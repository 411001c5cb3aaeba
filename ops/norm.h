// Helpers shared by the normalizations: checks, the affine part as operators, the nodes of layer_norm and rms_norm.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/floating.h"
#include "ops/registry.h"

namespace mantissa {

inline void check_parameter(const Tensor& t, const char* name, const Dims& expected) {
  if (!t.defined()) return;
  check(t.sizes() == expected, name, " has shape ", t.sizes(), ", expected ", expected);
  check(t.is_floating(), name, " is ", t.dtype(), ", expected a floating dtype");
}
inline Tensor scaled(Tensor y, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) y = y * weight;
  return bias.defined() ? y + bias : y;
}

// --- norms of rows: over the last dims ---
inline Dims trailing(const Dims& sizes, int n) {
  check(n <= sizes.rank(), "x has fewer than ", n, " dimensions");
  Dims t;
  for (int i = sizes.rank() - n; i < sizes.rank(); ++i) t.push_back(sizes[i]);
  return t;
}
inline Dims leading(const Dims& sizes, int n) {  // all but the last n
  Dims t;
  for (int i = 0; i < sizes.rank() - n; ++i) t.push_back(sizes[i]);
  return t;
}
inline void check_end(const Tensor& x, const Dims& shape) {
  check_floating(x);
  check(!shape.empty(), "normalized_shape is empty; give the trailing dims to normalise");
  check(shape.rank() <= x.dim() && trailing(x.sizes(), shape.rank()) == shape, "normalized_shape ", shape,
        " is not the end of x's shape ", x.sizes());
}
// layer_norm and rms_norm with this result dtype; default: x's.
Tensor layer_norm_as(std::optional<Dtype> dtype, const Tensor& x, const Dims& shape, const Tensor& weight,
                     const Tensor& bias, double eps);
Tensor rms_norm_as(std::optional<Dtype> dtype, const Tensor& x, const Dims& shape, const Tensor& weight,
                   std::optional<double> eps);

// The gradient of a norm's input in a second dtype, which the norm's backward kernel writes along with it. The norm's
// gradient rule passes it to that of the preceding addition, one summand of which has that dtype. Of all the rules that
// contribute to the sum's gradient the norm's runs last, since its node is the first that reads the sum.
struct RoundedGradient {
  Dtype dtype;
  Tensor gradient = {}, rounded = {};  // kept together: if the storage is still that of `gradient`, so are the values

  // `g` in `dtype` if it is the stored gradient, otherwise `g`.
  Tensor take(const Tensor& g) {
    const Tensor before = std::exchange(gradient, Tensor()), kept = std::exchange(rounded, Tensor());
    const bool same = before.defined() && before.storage() == g.storage() && before.storage()->version() == 0 &&
                      before.raw_data() == g.raw_data() && before.strides() == g.strides() && !grad_enabled();
    return same ? kept : g;
  }
};

// For code that computed the results {y, mean, inv_std} or {y, inv_rms} itself: the autograd node that layer_norm or
// rms_norm would have recorded. `also`, if given, receives x's gradient in its dtype in every backward pass that is not
// itself recorded.
autograd::NodeRef layer_norm_node(const Dims& shape, double eps, const Tensor& x, const Tensor& weight,
                                  const Tensor& bias, std::span<const Tensor> results,
                                  std::shared_ptr<RoundedGradient> also = {});
autograd::NodeRef rms_norm_node(const Dims& shape, double eps, const Tensor& x, const Tensor& weight,
                                std::span<const Tensor> results, std::shared_ptr<RoundedGradient> also = {});

}  // namespace mantissa
