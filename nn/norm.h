// BatchNorm1d, 2d and 3d, BatchNormAct2d, and LayerNorm, with the fields and results of their torch.nn namesakes. Batch
// norm (Ioffe and Szegedy, 2015) uses batch statistics in training and running statistics in evaluation mode;
// running_var is updated with the unbiased variance.
#pragma once

#include <optional>

#include "core/fused_ops.h"
#include "core/ops.h"
#include "nn/copy_fields.h"
#include "nn/fields.h"
#include "nn/init.h"

namespace mantissa::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  // weight of the newest batch in the running statistics; absent: cumulative average
  std::optional<double> momentum = 0.1;
  bool affine = true;     // learned scale and shift per channel
  bool track_running_stats = true;
};

// Common base of BatchNorm1d, 2d and 3d: channels are dimension 1 of x.
class BatchNorm {
 public:
  Param weight, bias;                                     // [channels]; initialised to 1 and 0
  Buffer running_mean, running_var, num_batches_tracked;  // [channels], [channels], i64 []
  Mode mode;
  BatchNormOptions options;
  MANTISSA_FIELDS(weight, bias, running_mean, running_var, num_batches_tracked, mode)

 protected:
  BatchNorm() = default;
  BatchNorm(std::int64_t channels, const BatchNormOptions& o) : options(o) {
    if (o.affine) {
      weight = Param(ones({channels}));
      bias = Param(zeros({channels}));
    }
    if (o.track_running_stats) {
      running_mean = zeros({channels});
      running_var = ones({channels});
      num_batches_tracked = zeros({}, {.dtype = i64});
    }
  }
  Tensor normalise(const Tensor& x, bool relu = false, const Tensor& z = {}) const;
};

class BatchNorm1d : public BatchNorm {  // x [N, C] or [N, C, L]
 public:
  explicit BatchNorm1d(std::int64_t channels, const BatchNormOptions& o = {}) : BatchNorm(channels, o) {}
  Tensor operator()(const Tensor& x) const {
    check(x.dim() == 2 || x.dim() == 3, "BatchNorm1d: needs [N, C] or [N, C, L], got ", x);
    return normalise(x);
  }
  BatchNorm1d clone() const {
    BatchNorm1d c;
    c.options = options;
    copy_fields(*this, c);
    return c;
  }

 private:
  BatchNorm1d() = default;
};

class BatchNorm2d : public BatchNorm {  // x [N, C, H, W]
 public:
  explicit BatchNorm2d(std::int64_t channels, const BatchNormOptions& o = {}) : BatchNorm(channels, o) {}
  Tensor operator()(const Tensor& x) const {
    check(x.dim() == 4, "BatchNorm2d: needs [N, C, H, W], got ", x);
    return normalise(x);
  }
  BatchNorm2d clone() const {
    BatchNorm2d c;
    c.options = options;
    copy_fields(*this, c);
    return c;
  }

 private:
  BatchNorm2d() = default;
};

// relu(bn(x)), or relu(bn(x) + z) with a residual z, as one operator: less memory traffic than BatchNorm2d, addition
// and relu, with the same parameters. Named BatchNormAct2d in timm, BatchNorm2d_NHWC with fuse_relu in apex.
class BatchNormAct2d : public BatchNorm {  // x, z [N, C, H, W]
 public:
  explicit BatchNormAct2d(std::int64_t channels, const BatchNormOptions& o = {}) : BatchNorm(channels, o) {}
  Tensor operator()(const Tensor& x, const Tensor& z = {}) const {
    check(x.dim() == 4, "BatchNormAct2d: needs [N, C, H, W], got ", x);
    return normalise(x, true, z);
  }
  BatchNormAct2d clone() const {
    BatchNormAct2d c;
    c.options = options;
    copy_fields(*this, c);
    return c;
  }

 private:
  BatchNormAct2d() = default;
};

class BatchNorm3d : public BatchNorm {  // x [N, C, D, H, W]
 public:
  explicit BatchNorm3d(std::int64_t channels, const BatchNormOptions& o = {}) : BatchNorm(channels, o) {}
  Tensor operator()(const Tensor& x) const {
    check(x.dim() == 5, "BatchNorm3d: needs [N, C, D, H, W], got ", x);
    return normalise(x);
  }
  BatchNorm3d clone() const {
    BatchNorm3d c;
    c.options = options;
    copy_fields(*this, c);
    return c;
  }

 private:
  BatchNorm3d() = default;
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;  // only with elementwise_affine
  // Under autocast: return the result in the region's dtype, as linear layers do, instead of f32 as PyTorch does. For a
  // norm that feeds a linear layer, which then need not cast it. The values are the same.
  bool autocast_output = false;
};

// Normalises over the trailing dimensions `shape` of x (Ba et al., 2016).
class LayerNorm {
 public:
  explicit LayerNorm(std::int64_t size, const LayerNormOptions& o = {}) : LayerNorm(Dims{size}, o) {}
  explicit LayerNorm(const Dims& normalized_shape, const LayerNormOptions& o = {})
      : shape(normalized_shape), eps(o.eps), autocast_output(o.autocast_output) {
    if (!o.elementwise_affine) return;
    weight = Param(ones(shape));
    if (o.bias) bias = Param(zeros(shape));
  }
  Tensor operator()(const Tensor& x) const {
    return autocast_output ? (*this)(x, {}).y : layer_norm(x, shape, weight, bias, eps);
  }
  // With a preceding residual connection: {sum = x + delta, y = norm(sum)}, in one pass (core/fused_ops.h). Under
  // autocast y has the region's dtype, unless `dtype` says otherwise. If delta is undefined, sum is x.
  SumAndNorm operator()(const Tensor& x, const Tensor& delta, NormDtype dtype = NormDtype::of_region) const {
    return add_layer_norm(x, delta, shape, weight, bias, eps, dtype);
  }

  Param weight, bias;
  Dims shape;
  double eps = 1e-5;
  bool autocast_output = false;
  MANTISSA_FIELDS(weight, bias)
  LayerNorm clone() const {
    LayerNorm c(shape, {.eps = eps, .elementwise_affine = false, .autocast_output = autocast_output});
    copy_fields(*this, c);
    return c;
  }
};

}  // namespace mantissa::nn
