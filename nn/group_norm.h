// GroupNorm, InstanceNorm1d, 2d and 3d, RMSNorm and LocalResponseNorm, with the fields and results of their torch.nn
// namesakes. The functions of the same names are in core/ops.h.
#pragma once

#include <optional>

#include "core/fused_ops.h"
#include "core/ops.h"
#include "nn/copy_fields.h"
#include "nn/fields.h"

namespace mantissa::nn {

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
};
class GroupNorm {  // x [N, channels, ...]
 public:
  GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& o = {}) : groups(groups), eps(o.eps) {
    check(groups >= 1 && channels % groups == 0, "GroupNorm: ", channels, " channels do not divide into ", groups,
        " groups");
    if (!o.affine) return;
    weight = Param(ones({channels}));
    bias = Param(zeros({channels}));
  }
  Tensor operator()(const Tensor& x) const { return group_norm(x, groups, weight, bias, eps); }

  Param weight, bias;
  std::int64_t groups = 1;
  double eps = 1e-5;
  MANTISSA_FIELDS(weight, bias)
  GroupNorm clone() const {
    GroupNorm c;
    c.groups = groups;
    c.eps = eps;
    copy_fields(*this, c);
    return c;
  }

 private:
  GroupNorm() = default;
};

struct InstanceNormOptions {
  double eps = 1e-5, momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;
};
class InstanceNorm {  // common base of the three
 public:
  Param weight, bias;
  Buffer running_mean, running_var, num_batches_tracked;
  Mode mode;
  InstanceNormOptions options;
  MANTISSA_FIELDS(weight, bias, running_mean, running_var, num_batches_tracked, mode)

 protected:
  InstanceNorm() = default;
  InstanceNorm(std::int64_t channels, const InstanceNormOptions& o) : options(o) {
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
  Tensor normalise(const Tensor& x) const {
    return instance_norm(x, running_mean, running_var, weight, bias, mode.training || !running_mean.defined(),
        options.momentum, options.eps);
  }
};
class InstanceNorm1d : public InstanceNorm {  // x [N, C, L]
 public:
  explicit InstanceNorm1d(std::int64_t channels, const InstanceNormOptions& o = {}) : InstanceNorm(channels, o) {}
  Tensor operator()(const Tensor& x) const {
    check(x.dim() == 3, "InstanceNorm1d: needs [N, C, L], got ", x);
    return normalise(x);
  }
  InstanceNorm1d clone() const {
    InstanceNorm1d c;
    c.options = options;
    copy_fields(*this, c);
    return c;
  }

 private:
  InstanceNorm1d() = default;
};
class InstanceNorm2d : public InstanceNorm {  // x [N, C, H, W]
 public:
  explicit InstanceNorm2d(std::int64_t channels, const InstanceNormOptions& o = {}) : InstanceNorm(channels, o) {}
  Tensor operator()(const Tensor& x) const {
    check(x.dim() == 4, "InstanceNorm2d: needs [N, C, H, W], got ", x);
    return normalise(x);
  }
  InstanceNorm2d clone() const {
    InstanceNorm2d c;
    c.options = options;
    copy_fields(*this, c);
    return c;
  }

 private:
  InstanceNorm2d() = default;
};

class InstanceNorm3d : public InstanceNorm {  // x [N, C, D, H, W]
 public:
  explicit InstanceNorm3d(std::int64_t channels, const InstanceNormOptions& o = {}) : InstanceNorm(channels, o) {}
  Tensor operator()(const Tensor& x) const {
    check(x.dim() == 5, "InstanceNorm3d: needs [N, C, D, H, W], got ", x);
    return normalise(x);
  }
  InstanceNorm3d clone() const {
    InstanceNorm3d c;
    c.options = options;
    copy_fields(*this, c);
    return c;
  }

 private:
  InstanceNorm3d() = default;
};

struct RMSNormOptions {
  std::optional<double> eps = {};  // when absent: f64's epsilon for f64, else f32's
  bool elementwise_affine = true;
  bool autocast_output = false;  // as LayerNorm's (nn/norm.h)
};
class RMSNorm {  // over the trailing dimensions `shape` of x
 public:
  explicit RMSNorm(std::int64_t size, const RMSNormOptions& o = {}) : RMSNorm(Dims{size}, o) {}
  explicit RMSNorm(const Dims& normalized_shape, const RMSNormOptions& o = {})
      : shape(normalized_shape), eps(o.eps), autocast_output(o.autocast_output) {
    if (o.elementwise_affine) weight = Param(ones(shape));
  }
  Tensor operator()(const Tensor& x) const {
    return autocast_output ? (*this)(x, {}).y : rms_norm(x, shape, weight, eps);
  }
  // With a preceding residual connection: {sum = x + delta, y = norm(sum)}, in one pass (core/fused_ops.h). Under
  // autocast y has the region's dtype, unless `dtype` says otherwise. If delta is undefined, sum is x.
  SumAndNorm operator()(const Tensor& x, const Tensor& delta, NormDtype dtype = NormDtype::of_region) const {
    return add_rms_norm(x, delta, shape, weight, eps, dtype);
  }

  Param weight;
  Dims shape;
  std::optional<double> eps;
  bool autocast_output = false;
  MANTISSA_FIELDS(weight)
  RMSNorm clone() const {
    RMSNorm c(shape, {.eps = eps, .elementwise_affine = false, .autocast_output = autocast_output});
    copy_fields(*this, c);
    return c;
  }
};

struct LocalResponseNorm {
  int size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1;
  Tensor operator()(const Tensor& x) const { return local_response_norm(x, size, alpha, beta, k); }
};

}  // namespace mantissa::nn
