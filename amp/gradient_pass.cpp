#include "amp/gradient_pass.h"

#include <cmath>
#include <mutex>

#include "autograd/grad_mode.h"
#include "core/multi_tensor.h"
#include "core/ops.h"

namespace mantissa::amp {
namespace {

// Few, and short-lived: from unscale_ to step. Of all threads, because a pass may end in another one.
std::mutex living_mutex;
GradientPass* living_passes = nullptr;

Tensor new_summary(Device device) {
  static_assert(sizeof(GradientSummary) == 5 * sizeof(double));
  return zeros({5}, {.dtype = f64, .device = device});
}
GradientSummary* fields_of(const Tensor& summary) { return reinterpret_cast<GradientSummary*>(summary.data<double>()); }

}  // namespace

GradientPass::GradientPass(const Steppable& optimizer, const Tensor& scale, Tensor found_inf, bool allow_f16)
    : found_inf_(std::move(found_inf)), summary_(new_summary(scale.device())) {
  const NoGrad no_grad;
  const std::vector<Tensor> parameters = optimizer.parameters();
  std::vector<GradientView> views;
  std::vector<std::pair<Tensor, Tensor>> strided;  // gradient, dense copy
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor g = parameters[i].grad();
    if (!g.defined()) continue;
    if (g.dtype() == f16 && !allow_f16) {
      fail("GradScaler.unscale_: the gradient of ", optimizer.parameter_name(i),
           " is f16: keep parameters in f32 and use autocast, or set allow_f16_gradients");
    }
    if (!(g.device() == scale.device())) {
      fail("GradScaler.unscale_: the gradient of ", optimizer.parameter_name(i), " is on ", g.device(), ", the scaler on ",
           scale.device());
    }
    gradients_.push_back(g);
    if (!g.is_contiguous()) strided.emplace_back(g, empty_like(g).copy_(g));
    const Tensor& dense = g.is_contiguous() ? g : strided.back().second;
    views.push_back({dense.raw_data(), dense.numel(), dense.dtype(), static_cast<std::int64_t>(i)});
  }
  kernels::unscale_gradients(scale.device(), std::span<const GradientView>(views), scale.data<float>(), found_inf_.data<bool>(),
                             fields_of(summary_));
  for (auto& [gradient, dense] : strided) gradient.copy_(dense);
  for (const Tensor& g : gradients_) {
    g.storage()->written_by("unscale_");
    versions_.push_back(g.storage()->version());
  }
  const std::lock_guard lock(living_mutex);
  next_ = std::exchange(living_passes, this);
}

GradientPass::~GradientPass() {
  const std::lock_guard lock(living_mutex);
  for (GradientPass** p = &living_passes; *p; p = &(*p)->next_) {
    if (*p != this) continue;
    *p = next_;
    return;
  }
}

bool GradientPass::is_start_of(std::span<const Tensor> gradients) const {
  if (gradients.size() < gradients_.size()) return false;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (!gradients[i].is_same(gradients_[i]) || gradients_[i].storage()->version() != versions_[i]) return false;
  }
  return true;
}

Tensor known_norm(std::span<const Tensor> gradients) {
  const std::lock_guard lock(living_mutex);
  Tensor squares;
  while (!gradients.empty()) {
    const GradientPass* pass = living_passes;
    while (pass && (pass->empty() || !pass->is_start_of(gradients))) pass = pass->next_;
    if (!pass) return {};
    const Tensor sum = pass->summary().as_strided({}, {}, 0);
    squares = squares.defined() ? add(squares, sum) : sum;
    gradients = gradients.subspan(pass->size());
  }
  return squares.defined() ? sqrt(squares).to(f32) : Tensor();
}

GradientStats StepResult::gradients() const {
  if (!summary_.defined()) return {};
  const std::vector<double> s = summary_.to_vector<double>();
  return {.norm = std::sqrt(s[0]), .largest = s[1], .infs = static_cast<std::int64_t>(s[2]),
          .nans = static_cast<std::int64_t>(s[3]), .first_bad = static_cast<std::int64_t>(s[4])};
}

std::vector<GradientReport> check_gradients(const Steppable& optimizer) {
  const NoGrad no_grad;
  std::vector<GradientReport> bad;
  const std::vector<Tensor> parameters = optimizer.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor g = parameters[i].grad();
    if (!g.defined()) continue;
    GradientReport r{.parameter = optimizer.parameter_name(i)};
    double squares = 0;
    for (double x : g.to_vector<double>()) {
      if (std::isnan(x)) ++r.nans;
      else if (std::isinf(x)) ++r.infs;
      else {
        squares += x * x;
        r.largest = std::max(r.largest, std::abs(x));
      }
    }
    r.norm = std::sqrt(squares);
    if (r.infs + r.nans > 0) bad.push_back(std::move(r));
  }
  return bad;
}

}  // namespace mantissa::amp
