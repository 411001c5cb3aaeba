#include "nn/sync_batch_norm.h"

#include "core/ops.h"
#include "core/ops_special.h"
#include "nn/norm.h"
#include "ops/batch_norm.h"
#include "ops/function.h"

namespace mantissa::nn {
namespace {

using distributed::ProcessGroup;

Dims all_but_channels(const Tensor& x) {
  Dims over{0};
  for (int d = 2; d < x.dim(); ++d) over.push_back(d);
  return over;
}

// Per channel, over all ranks: f64 [channels], on the CPU.
struct Statistics {
  Tensor mean, var, count;
};
Statistics statistics_of_all(ProcessGroup& group, const Tensor& x) {
  const std::int64_t channels = x.size(1);
  const double count = channels == 0 ? 0 : static_cast<double>(x.numel() / channels);
  Tensor mean = zeros({channels}, {.dtype = f64}), var = mean;
  if (count > 0) {
    const VarMean local = var_mean(x.to(compute_dtype(x.dtype())), all_but_channels(x), false, 0);
    mean = local.mean.to(cpu).to(f64), var = local.var.to(cpu).to(f64);
  }
  // Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979
  const Tensor all = group.all_gather(stack({mean, var, full({channels}, count, {.dtype = f64})}));
  const Tensor means = all.select(1, 0), vars = all.select(1, 1), counts = all.select(1, 2);  // [ranks, channels]
  const Tensor total = sum(counts, {0});
  check(channels == 0 || total[0].item<double>() > 1, "needs more than one value per channel in training, got ", x,
        " on rank ", group.rank(), " and no more on the others; use a larger batch, or eval mode");
  mean = sum(counts * means, {0}) / total;
  const Tensor off = means - mean;
  return {mean, sum(counts * (vars + off * off), {0}) / total, total};
}

void follow(const Tensor& running, const Tensor& now, double momentum) {
  if (!running.defined()) return;
  const Tensor next = (1 - momentum) * running.to(cpu).to(f64) + momentum * now;
  Tensor(running).copy_(next);
}

// Follows torch.nn.SyncBatchNorm.
struct SyncBatchNorm {
  static constexpr auto name = "sync_batch_norm";
  ProcessGroup& group;
  Tensor running_mean, running_var;
  double momentum, eps;

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    const Statistics s = statistics_of_all(group, x);
    follow(running_mean, s.mean, momentum);
    follow(running_var, s.var * (s.count / (s.count - 1)), momentum);
    const auto here = [&](const Tensor& t) { return t.to(compute_dtype(x.dtype())).to(x.device()); };
    const Tensor mean = here(s.mean), var = here(s.var);
    saved.save({x, weight, mean, here(rsqrt(s.var + eps)), s.count});
    return batch_norm(x, weight, bias, mean, var, false, 0, eps);
  }

  // With s = weight / std and h = (x - mean) / std:  dx = s (g - E[g] - h E[g h]), with means over all ranks. Computed
  // as s g + b x + c, with b and c per channel.
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    check(!grad_enabled(), name, ": it cannot be differentiated a second time");
    const Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &inv_std = saved[3];
    const auto [dx, dweight, dbias] = batch_norm_gradients(g, x, weight, mean, inv_std);
    const Tensor sums = stack({dbias, dweight}).to(cpu).to(f64);
    group.all_reduce(sums);
    const Tensor means = (sums / saved[4]).to(x.device()).to(mean.dtype());
    const Tensor s = weight.defined() ? weight.to(mean.dtype()) * inv_std : inv_std;
    const Tensor b = -s * inv_std * means[1], c = -s * means[0] - b * mean;
    const auto per_channel = [&](const Tensor& t) {
      Dims shape = Dims::filled(x.dim(), 1);
      shape[1] = x.size(1);
      return reshape(t, shape);
    };
    const Tensor centred =
        addcmul(addcmul(per_channel(c), per_channel(s), g.to(mean.dtype())), per_channel(b), x.to(mean.dtype()));
    return {centred.to(x.dtype()), dweight, dbias};
  }
};

}  // namespace

Tensor detail::sync_batch_norm(ProcessGroup& group, const Tensor& x, const Tensor& weight, const Tensor& bias,
                               const Tensor& running_mean, const Tensor& running_var, double momentum, double eps) {
  return apply_function(SyncBatchNorm{group, running_mean, running_var, momentum, eps}, x, weight, bias);
}

void sync_batch_norm(ModuleRef net, ProcessGroup& group) {
  struct Visitor final : Fields {
    ProcessGroup* group;
    void mode(Mode& m) override { m.group = group; }
  } visitor;
  visitor.group = group.size() > 1 ? &group : nullptr;
  net.visit(visitor);
}

}  // namespace mantissa::nn
