#include "nn/adaptive_softmax.h"

#include <cmath>

#include "core/recording.h"

namespace mantissa::nn {
namespace {

std::int64_t head_size(std::int64_t in, std::int64_t classes, const std::vector<std::int64_t>& cutoffs) {
  const char* name = "AdaptiveLogSoftmaxWithLoss: ";
  check(in >= 1 && classes >= 2, name, "in_features and n_classes must be positive, got ", in, " and ", classes);
  check(!cutoffs.empty(), name, "needs at least one cutoff");
  std::int64_t last = 0;
  for (std::int64_t c : cutoffs) {
    check(c > last && c < classes, name, "cutoffs must rise from 1 to below n_classes ", classes, ", found ", c,
          " after ", last);
    last = c;
  }
  return cutoffs[0] + static_cast<std::int64_t>(cutoffs.size());
}

}  // namespace

AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(std::int64_t in, std::int64_t classes,
                                                       std::vector<std::int64_t> given,
                                                       const AdaptiveLogSoftmaxOptions& o)
    : head(in, head_size(in, classes, given), {.bias = o.head_bias}), cutoffs(std::move(given)) {
  check(o.div_value > 0, "AdaptiveLogSoftmaxWithLoss: div_value must be positive, got ", o.div_value);
  cutoffs.push_back(classes);
  for (std::size_t i = 0; i + 1 < cutoffs.size(); ++i) {
    const auto width = static_cast<std::int64_t>(
        std::floor(static_cast<double>(in) / std::pow(o.div_value, static_cast<double>(i + 1))));
    check(width >= 1, "AdaptiveLogSoftmaxWithLoss: in_features ", in, " leaves nothing for cluster ", i,
          " with div_value ", o.div_value);
    tail.push_back(
        Sequential(Linear(in, width, {.bias = false}), Linear(width, cutoffs[i + 1] - cutoffs[i], {.bias = false})));
  }
}
AdaptiveLogSoftmaxWithLoss AdaptiveLogSoftmaxWithLoss::clone() const {
  AdaptiveLogSoftmaxWithLoss c(head.clone());
  for (const Sequential& cluster : tail) c.tail.push_back(cluster.clone());
  c.cutoffs = cutoffs;
  return c;
}
void AdaptiveLogSoftmaxWithLoss::check_input(const Tensor& x) const {
  check((x.dim() == 1 || x.dim() == 2) && x.size(-1) == head.weight.size(1), "AdaptiveLogSoftmaxWithLoss: needs [N, ",
        head.weight.size(1), "] or [", head.weight.size(1), "], got ", x);
}

AdaptiveLogSoftmaxResult AdaptiveLogSoftmaxWithLoss::operator()(const Tensor& given, const Tensor& given_target) const {
  check_input(given);
  const bool batched = given.dim() == 2;
  const Tensor x = batched ? given : unsqueeze(given, 0), target = batched ? given_target : reshape(given_target, {1});
  check(target.dtype() == i64 && target.sizes() == Dims{x.size(0)}, "AdaptiveLogSoftmaxWithLoss: target must be i64 [",
        x.size(0), "], got ", given_target);
  check_may_read("AdaptiveLogSoftmaxWithLoss", target, "the targets say which clusters are computed");
  const auto classes = static_cast<double>(cutoffs.back());
  check(all(logical_and(ge(target, Tensor(0.0)), lt(target, Tensor(classes)))).item<bool>(),
        "AdaptiveLogSoftmaxWithLoss: target ", given_target, " holds classes outside [0, ", cutoffs.back(), ")");
  const Tensor heads = log_softmax(head(x), 1);
  Tensor entry = target, output = zeros({x.size(0)}, {.dtype = heads.dtype(), .device = x.device()});
  for (std::size_t i = 0; i < tail.size(); ++i) {
    const auto low = static_cast<double>(cutoffs[i]), high = static_cast<double>(cutoffs[i + 1]);
    const Tensor rows = flatten(nonzero(logical_and(ge(target, Tensor(low)), lt(target, Tensor(high)))));
    if (rows.numel() == 0) continue;
    entry = index_fill(entry, 0, rows, static_cast<double>(cutoffs[0] + static_cast<std::int64_t>(i)));
    const Tensor inside = index_select(target, 0, rows) - scalar(low, {.dtype = i64, .device = x.device()});
    const Tensor log_probabilities = log_softmax(tail[i](index_select(x, 0, rows)), 1);
    output = index_copy(output, 0, rows,
                        cast(squeeze(gather(log_probabilities, 1, unsqueeze(inside, 1)), 1), output.dtype()));
  }
  output = output + squeeze(gather(heads, 1, unsqueeze(entry, 1)), 1);
  return {batched ? output : squeeze(output, 0), -mean(output)};
}
Tensor AdaptiveLogSoftmaxWithLoss::log_prob(const Tensor& given) const {
  check_input(given);
  const Tensor x = given.dim() == 2 ? given : unsqueeze(given, 0), heads = log_softmax(head(x), 1);
  std::vector<Tensor> parts{slice(heads, 1, 0, cutoffs[0])};
  for (std::size_t i = 0; i < tail.size(); ++i) {
    const auto entry = cutoffs[0] + static_cast<std::int64_t>(i);
    parts.push_back(log_softmax(tail[i](x), 1) + slice(heads, 1, entry, entry + 1));
  }
  const Tensor y = cat(parts, 1);
  return given.dim() == 2 ? y : squeeze(y, 0);
}
Tensor AdaptiveLogSoftmaxWithLoss::predict(const Tensor& x) const { return argmax(log_prob(x), -1); }

}  // namespace mantissa::nn
